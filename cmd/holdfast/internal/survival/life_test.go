package survival

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
	"github.com/holdfast-proxy/holdfast/fdstore"
)

// life is one child, from its start to its end.
type life struct {
	house   *house
	number  int
	pid     int
	loops   int
	log     string
	command *os.File
	said    chan report
	end     string   // how it was ended
	calls   []string // its last system calls, where it was traced
	told    report   // the last report
}

// report is what a child says of itself.
type report struct {
	What     string // restored, let go, or stats
	Restored int
	Ended    int
	Lost     int
	Damaged  int
	Unkept   int64
	Active   int64
	Accepted int64 // by all lives
	BytesIn  int64 // likewise
	Kept     int
	Pause    time.Duration
	Clients  []netip.AddrPort // of the connections over TCP that were found
}

// settings are what a child is to do.
type settings struct {
	Notify   string // socket of the manager
	Loops    int
	Slots    int // of the vault
	InFlight int // 0 = as many as may be
	Pipeless bool
	Idle     time.Duration // after which connections are ended; 0 = never
	Damage   int           // slots to be filled with garbage before they are restored
	Seed     uint64
	Routes   []childRoute
	Held     []string // names of the descriptors from the store
	First    int      // descriptor of the first of them
}

type childRoute struct {
	Name        string
	FD          int
	Backends    []string // the network and the address of each
	AcceptProxy bool
	SendProxy   int
}

// The descriptors of a child.
const (
	reportFD  = 3
	commandFD = 4
	firstFD   = 5
)

// start starts a child that restores what there is. change may be nil.
func (h *house) start(change func(*settings)) *life {
	h.t.Helper()
	return h.spawn(change, nil, h.held())
}

// held is what the store passes to the next child, when it has heard the last one.
func (h *house) held() []fdstore.Held {
	h.t.Helper()
	require.NoError(h.t, h.manager.Notifier().Barrier(h.t.Context()))
	return h.manager.Pass()
}

// spawn starts a child with what it holds. attributes may be nil.
func (h *house) spawn(change func(*settings), attributes *syscall.SysProcAttr, held []fdstore.Held) *life {
	h.t.Helper()
	number := int(h.life.Add(1))
	l := &life{house: h, number: number, said: make(chan report, 10), end: "lives", log: filepath.Join(h.dir, fmt.Sprint("child-", number, ".log"))}
	s := settings{Notify: h.manager.Socket(), Loops: []int{2, 1, 2, 3}[number%4], Slots: 1 << 16, Seed: h.seed + uint64(number), First: firstFD + len(h.routes)}
	log, err := os.OpenFile(l.log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	require.NoError(h.t, err)
	defer log.Close()
	var reports, commands [2]int
	require.NoError(h.t, unix.Pipe2(reports[:], unix.O_CLOEXEC))
	require.NoError(h.t, unix.Pipe2(commands[:], unix.O_CLOEXEC))
	files := []uintptr{uintptr(unix.Stdin), log.Fd(), log.Fd(), uintptr(reports[1]), uintptr(commands[0])}
	for i, r := range h.routes {
		files = append(files, uintptr(r.fd))
		c := childRoute{Name: r.name, FD: firstFD + i, AcceptProxy: r.acceptProxy, SendProxy: r.sendProxy}
		for j, b := range r.backends {
			network := r.to
			if r.refusing && j == 0 {
				network = "tcp"
			}
			c.Backends = append(c.Backends, network+" "+b)
		}
		s.Routes = append(s.Routes, c)
	}
	for _, held := range held {
		s.Held = append(s.Held, held.Name)
		files = append(files, uintptr(held.FD.Raw()))
	}
	if change != nil {
		change(&s)
	}
	l.loops = s.Loops
	text, err := json.Marshal(s)
	require.NoError(h.t, err)
	// Not os/exec: it takes descriptors as os.File, whose Fd makes the shared socket blocking.
	l.pid, err = syscall.ForkExec("/proc/self/exe", []string{"survivor"}, &syscall.ProcAttr{
		Env: append(os.Environ(), childVariable+"="+string(text)), Files: files, Sys: attributes,
	})
	require.NoError(h.t, err)
	for _, fd := range []int{reports[1], commands[0]} {
		_ = unix.Close(fd)
	}
	for _, held := range held {
		_ = held.FD.Close()
	}
	l.command = os.NewFile(uintptr(commands[1]), "command")
	go l.listen(os.NewFile(uintptr(reports[0]), "report"))
	h.mu.Lock()
	h.lives = append(h.lives, l)
	h.lives = slices.Clone(h.lives[max(0, len(h.lives)-4):])
	h.mu.Unlock()
	return l
}

// listen reads the reports of a child. It ends with the child.
func (l *life) listen(from *os.File) {
	defer close(l.said)
	defer from.Close()
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			l.said <- r
		}
	}
}

// await waits for a report.
func (l *life) await(what string) report {
	l.house.t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case r, ok := <-l.said:
			if !ok {
				l.house.t.Fatalf("life %d ended before %q:\n%s", l.number, what, l.logged())
			}
			l.note(r)
			if r.What == what {
				return r
			}
		case <-deadline:
			l.house.t.Fatalf("life %d: no %q:\n%s", l.number, what, l.logged())
		}
	}
}

// note checks what a child says.
func (l *life) note(r report) {
	if r.What == "restored" {
		l.house.ended.Add(int64(r.Ended))
	}
	l.house.mu.Lock()
	for _, p := range l.house.plans {
		p.found = p.found || slices.Contains(r.Clients, p.address)
	}
	r.Clients = nil
	l.told = r
	l.house.mu.Unlock()
	if r.Lost > r.Damaged && l.house.tolerates == nil {
		l.house.t.Errorf("life %d has lost %d connections:\n%s\n%s", l.number, r.Lost, l.logged(), l.house.recent())
	}
}

// ask gives a command, and waits for the answer.
func (l *life) ask(what string) report {
	l.house.t.Helper()
	_, err := l.command.Write([]byte(what + "\n"))
	require.NoError(l.house.t, err)
	return l.await(what)
}

// awaitStandstill waits until there are so many connections, all kept, and nothing moves.
func (l *life) awaitStandstill(connections int) {
	l.house.t.Helper()
	var last report
	since := time.Now()
	testbed.Eventually(l.house.t, patience, "nothing moves", func() bool {
		now := l.ask("stats")
		if !reflect.DeepEqual(now, last) || now.Active != int64(connections) || now.Kept != connections {
			last, since = now, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
}

// kill ends a child, wherever it is.
func (l *life) kill() {
	l.house.killed.Add(1)
	_ = unix.Kill(l.pid, unix.SIGKILL)
	l.reap("killed")
}

// stop ends a child in order. Its connections are over.
func (l *life) stop() {
	_ = l.command.Close()
	l.reap("stopped")
}

// reap waits for the end of a child.
func (l *life) reap(end string) {
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(l.pid, &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	l.ended(end, status)
}

// ended notes the end of a child that was waited for.
func (l *life) ended(end string, status unix.WaitStatus) {
	_ = l.command.Close()
	for r := range l.said {
		l.note(r)
	}
	l.house.mu.Lock()
	l.end = end
	l.house.mu.Unlock()
	if status.Exited() && status.ExitStatus() != 0 || status.Signaled() && status.Signal() != unix.SIGKILL {
		l.house.t.Errorf("life %d ended by itself (%v):\n%s", l.number, status, l.logged())
	}
	if !l.house.t.Failed() {
		_ = os.Remove(l.log)
	}
}

func (l *life) logged() string {
	text, _ := os.ReadFile(l.log)
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

func (l *life) text() string {
	return fmt.Sprintf("life %d, %d loops: restored %+v; %s%s", l.number, l.loops, l.told, l.end, strings.Join(l.calls, "\n\t\t"))
}
