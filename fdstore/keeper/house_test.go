package keeper_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
)

// house is where a keeper runs a service for a test.
type house struct {
	t        *testing.T
	dir      string
	options  keeper.Options
	pause    string // before a restart; "" = as it is for users
	wrapper  []string
	keeper   *exec.Cmd
	ended    chan struct{} // closed when keeper has
	listener *net.UnixListener
	services chan *service
}

// service is one process of it.
type service struct {
	hello

	t    *testing.T
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

func newHouse(t *testing.T, o keeper.Options) *house {
	t.Helper()
	dir, err := os.MkdirTemp("", "keeper")
	require.NoError(t, err)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "test.sock"), Net: "unix"})
	require.NoError(t, err)
	h := &house{t: t, dir: dir, options: o, pause: "20ms", listener: l, services: make(chan *service, 100)}
	var accepting sync.WaitGroup
	accepting.Go(h.accept)
	t.Cleanup(func() {
		_ = l.Close() // what still runs cannot come in, and what has ends with its connection
		accepting.Wait()
		close(h.services)
		for s := range h.services {
			_ = s.conn.Close()
		}
		if t.Failed() {
			log, _ := os.ReadFile(h.logFile())
			t.Logf("the log:\n%s", log)
		}
		_ = os.RemoveAll(dir)
	})
	return h
}

// live is a house with a keeper.
func live(t *testing.T, o keeper.Options) *house {
	t.Helper()
	h := newHouse(t, o)
	h.start()
	return h
}

func (h *house) logFile() string { return filepath.Join(h.dir, "log") }

// log is what keepers and services have said so far.
func (h *house) log() string {
	h.t.Helper()
	log, err := os.ReadFile(h.logFile())
	require.NoError(h.t, err)
	return string(log)
}

// start starts a keeper of the service of the tests, or of a command.
func (h *house) start(command ...string) {
	h.t.Helper()
	if command == nil {
		command = []string{"/proc/self/exe", "agent", h.listener.Addr().String()}
	}
	h.startAs(h.command(command...))
}

// command is a keeper to be started.
func (h *house) command(command ...string) *exec.Cmd {
	h.t.Helper()
	o := h.options
	o.Log = nil
	options, err := json.Marshal(o)
	require.NoError(h.t, err)
	argv := append(append(h.wrapper, os.Args[0], "keeper"), command...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), optionsVariable+"="+string(options), pauseVariable+"="+h.pause, "GORACE=atexit_sleep_ms=0")
	return cmd
}

func (h *house) startAs(cmd *exec.Cmd) {
	h.t.Helper()
	log, err := os.OpenFile(h.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(h.t, err)
	defer log.Close()
	cmd.Stderr = log
	require.NoError(h.t, cmd.Start())
	ended := make(chan struct{})
	h.keeper, h.ended = cmd, ended
	go func() { // ends with the keeper, which cleanup kills
		_ = cmd.Wait()
		close(ended)
	}()
	h.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
}

// accept ends with the listener.
func (h *house) accept() {
	for {
		conn, err := h.listener.Accept()
		if err != nil {
			return
		}
		s := &service{t: h.t, conn: conn, in: json.NewDecoder(conn), out: json.NewEncoder(conn)}
		if err := s.in.Decode(&s.hello); err != nil {
			_ = conn.Close()
			continue
		}
		h.services <- s
	}
}

// next is the next process to come.
func (h *house) next() *service {
	h.t.Helper()
	select {
	case s := <-h.services:
		h.t.Cleanup(func() { _ = s.conn.Close() }) // it ends then
		return s
	case <-time.After(patience):
		require.Fail(h.t, "no process comes")
		return nil
	}
}

// signal is one to the keeper.
func (h *house) signal(signal unix.Signal) {
	h.t.Helper()
	require.NoError(h.t, h.keeper.Process.Signal(signal))
}

// code waits for the end of the keeper.
func (h *house) code() int {
	h.t.Helper()
	select {
	case <-h.ended:
		return h.keeper.ProcessState.ExitCode()
	case <-time.After(patience):
		require.Fail(h.t, "the keeper does not end")
		return -1
	}
}

// stop ends the keeper, and what it runs, in order.
func (h *house) stop() {
	h.t.Helper()
	h.signal(unix.SIGTERM)
	require.Zero(h.t, h.code())
}

// logs waits for a line in the log.
func (h *house) logs(parts ...string) {
	h.t.Helper()
	h.eventually("a log line with "+strings.Join(parts, " and "), func() bool { return count(h.log(), parts...) > 0 })
}

// saidAt are the times of lines in the log.
func (h *house) saidAt(part string) (times []time.Time) {
	h.t.Helper()
	for line := range strings.Lines(h.log()) {
		if strings.Contains(line, part) {
			stamp, _, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
			at, err := time.Parse(time.RFC3339, stamp)
			require.NoError(h.t, err)
			times = append(times, at)
		}
	}
	return times
}

func count(log string, parts ...string) (n int) {
	for line := range strings.Lines(log) {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			n++
		}
	}
	return n
}

func (h *house) eventually(what string, holds func() bool) {
	h.t.Helper()
	require.Eventually(h.t, holds, patience, 5*time.Millisecond, what)
}

// do has the process do something, and fails the test if it cannot.
func (s *service) do(r request) answer {
	s.t.Helper()
	a, err := s.try(r)
	require.NoError(s.t, err)
	require.Empty(s.t, a.Error)
	return a
}

// try gives an error when the process has ended.
func (s *service) try(r request) (a answer, err error) {
	_ = s.conn.SetDeadline(time.Now().Add(patience))
	if err := s.out.Encode(r); err != nil {
		return a, err
	}
	err = s.in.Decode(&a)
	return a, err
}

func (s *service) send(lines ...string) {
	s.t.Helper()
	s.do(request{Do: "send", Lines: lines})
}

// say sends a message and waits until it has been dealt with.
func (s *service) say(lines ...string) {
	s.t.Helper()
	s.send(lines...)
	s.do(request{Do: "barrier"})
}

func (s *service) push(name string, n int, lines ...string) {
	s.t.Helper()
	s.do(request{Do: "push", Count: n, Lines: append([]string{"FDSTORE=1", "FDNAME=" + name}, lines...)})
}

// exit has it end, and waits until it does.
func (s *service) exit(code int) {
	s.t.Helper()
	_, err := s.try(request{Do: "exit", Count: code})
	require.Error(s.t, err)
}

func (s *service) kill(signal unix.Signal) {
	s.t.Helper()
	require.NoError(s.t, unix.Kill(s.PID, signal))
}

// gone waits until it has ended.
func (s *service) gone() {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return !running(s.PID) }, patience, time.Millisecond, "process %d runs", s.PID)
}

func (s *service) variable(name string) string {
	for _, v := range s.Environ {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}
