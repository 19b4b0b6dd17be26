package keeper_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

// hello is what the service in the tests says first, on a connection to the test.
type hello struct {
	PID, Parent, Group, Session int
	Arguments                   []string
	Environ                     []string
	Inherited                   []int    // descriptors
	Names                       []string // of those that are for this process
	Files                       uint64   // soft limit of open files
}

// request is what a test has the service do then, and answer what comes of it.
type request struct {
	Do    string
	Names []string
	Lines []string
	Count int
}

type answer struct {
	Error  string
	Text   string
	Number int
	Names  []string
}

// runAgent is the service. It ends when the test does.
func runAgent(arguments []string) int {
	h := hello{
		PID: os.Getpid(), Parent: os.Getppid(), Group: unix.Getpgrp(),
		Arguments: arguments, Environ: os.Environ(), Inherited: inherited(), Names: namesFromEnv(),
	}
	h.Session, _ = unix.Getsid(0)
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	h.Files = limit.Cur

	a := &agent{address: arguments[0], client: keeper.ClientFromEnv(), held: heldFromEnv()}
	a.notify = &storetest.Notifier{Socket: os.Getenv("NOTIFY_SOCKET")}
	caught := make(chan os.Signal, 100)
	signal.Notify(caught, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH)
	go a.note(caught)
	conn, err := net.Dial("unix", a.address)
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return 1
	}
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	_ = out.Encode(h)
	for {
		var r request
		if err := in.Decode(&r); err != nil {
			return 0
		}
		reply, err := a.do(r)
		if err != nil {
			reply.Error = err.Error()
		}
		_ = out.Encode(reply)
	}
}

type agent struct {
	address string
	client  *keeper.Client
	notify  *storetest.Notifier
	held    []fdstore.Held
	store   *fdstore.Store
	renewed atomic.Int32

	mu     sync.Mutex
	caught []string
}

// note ends with the process.
func (a *agent) note(caught <-chan os.Signal) {
	for s := range caught {
		a.mu.Lock()
		a.caught = append(a.caught, unix.SignalName(s.(unix.Signal)))
		a.mu.Unlock()
	}
}

func (a *agent) do(r request) (reply answer, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch r.Do {
	case "send":
		return reply, a.notify.SendFDs(nil, r.Lines...)
	case "barrier":
		return reply, a.notify.Barrier(ctx)
	case "push": // eventfds
		return reply, pushEventfds(a.notify, r.Count, r.Lines...)
	case "push half": // of a pipe whose other end is closed then
		return reply, pushHalf(a.notify, r.Lines...)
	case "open":
		back := fdstore.Reconcile(a.held, func(name string) bool { return strings.HasPrefix(name, "entry/") })
		a.store, err = fdstore.Open(ctx, a.notify, back, fdstore.Options{Max: r.Count})
		return reply, err
	case "names":
		return answer{Names: a.store.Names()}, nil
	case "keep":
		return reply, a.keep(ctx, r.Names)
	case "remove":
		return reply, a.store.Remove(ctx, r.Names...)
	case "job":
		job, err := a.client.Job(ctx)
		return answer{Text: string(job)}, err
	case "is child":
		return answer{Text: strconv.FormatBool(a.client.IsParent(ctx))}, nil
	case "follow": // ends with the process
		go a.client.Follow(context.Background(), func() { a.renewed.Add(1) })
		return reply, nil
	case "files": // that it may open
		return reply, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(r.Count), Max: uint64(r.Count)})
	case "answers":
		return answer{Text: strconv.FormatBool(a.client.Answers())}, nil
	case "renewed":
		return answer{Number: int(a.renewed.Load())}, nil
	case "caught":
		a.mu.Lock()
		defer a.mu.Unlock()
		return answer{Names: slices.Clone(a.caught)}, nil
	case "ignore":
		signal.Ignore(unix.SignalNum(r.Names[0]))
		return reply, nil
	case "fork":
		return a.fork(slices.Contains(r.Names, "session"))
	case "exit":
		os.Exit(r.Count)
	}
	return reply, fmt.Errorf("cannot do %q", r.Do)
}

// keep pushes listening sockets, by which one sees who has them.
func (a *agent) keep(ctx context.Context, names []string) error {
	var entries []fdstore.Entry
	for _, name := range names {
		raw, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return err
		}
		defer unix.Close(raw)
		entries = append(entries, fdstore.Entry{Name: name, FD: raw})
	}
	return a.store.Push(ctx, entries...)
}

// fork starts another agent, as a child that is not waited for.
func (a *agent) fork(session bool) (answer, error) {
	child := exec.Command("/proc/self/exe", "agent", a.address)
	child.Env = append(os.Environ(), a.client.Environ()...)
	child.Stderr = os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	err := child.Start()
	if err != nil {
		return answer{}, err
	}
	return answer{Number: child.Process.Pid}, nil
}

func pushEventfds(m fdstore.Manager, n int, lines ...string) error {
	var fds []int
	for range n {
		raw, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return err
		}
		defer unix.Close(raw)
		fds = append(fds, raw)
	}
	return m.SendFDs(fds, lines...)
}

func pushHalf(m fdstore.Manager, lines ...string) error {
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	return m.SendFDs(pipe[:1], lines...)
}

// inherited are the descriptors that came through exec: those are not close-on-exec,
// and all that Go opens is.
func inherited() (fds []int) {
	for fd := range 1 << 16 {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}

// namesFromEnv is the reading side of sd_listen_fds(3).
func namesFromEnv() []string {
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil
	}
	return strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
}

func heldFromEnv() (held []fdstore.Held) {
	for i, name := range namesFromEnv() {
		unix.CloseOnExec(3 + i)
		held = append(held, fdstore.Held{Name: name, FD: sock.NewFD(3 + i)})
	}
	return held
}

// patience is how long what is due at once may take on a busy machine.
const patience = 30 * time.Second
