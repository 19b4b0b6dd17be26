package handover

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// process is another process: this test binary in one of its roles. It is told what
// to do by lines and says what happens by lines.
type process struct {
	cmd   *exec.Cmd
	lines *bufio.Reader
	tell  func(line string)
}

// startProcess starts a role, as another user if uid is not ours.
func startProcess(t *testing.T, role string, uid int, args ...string) *process {
	t.Helper()
	exe, err := os.Open("/proc/self/exe") // another user may not read the build directory
	require.NoError(t, err)
	defer exe.Close()
	cmd := exec.Command("/proc/self/fd/3", args...)
	cmd.ExtraFiles = []*os.File{exe}
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), childVariable+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	if uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{cmd: cmd, lines: bufio.NewReader(out), tell: func(line string) { _, _ = fmt.Fprintln(in, line) }}
	t.Cleanup(func() {
		_ = in.Close() // a child ends with its input
		p.kill()
	})
	return p
}

// kill is kill -9. It returns when the process is no more.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails when it has ended
	_ = p.cmd.Wait()         // says that it was killed
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(unix.SIGSTOP))
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		return err == nil && strings.Contains(string(stat), ") T ")
	}, patience, tick)
}

func (p *process) goOn(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(unix.SIGCONT))
}

// says waits for the next line.
func (p *process) says(t *testing.T) string {
	t.Helper()
	line, err := p.lines.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

// do tells the process to do something, and gives what it says.
func (p *process) do(t *testing.T, line string) string {
	t.Helper()
	p.tell(line)
	return p.says(t)
}

func init() {
	children["original"] = func() int { return runOriginal(os.Args[1], os.Args[2:]) }
	children["replacement"] = func() int { return runReplacement(os.Args[1]) }
}

// runOriginal serves the paths and the handover socket until its input ends. It says
// what it is asked for.
func runOriginal(path string, paths []string) int {
	i := newInstance("original")
	i.tell = func(event string) { fmt.Println(event) }
	for _, p := range paths {
		l, err := sock.Listen(sock.Unix(p), sock.Options{})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		i.sockets = append(i.sockets, l)
		i.labels = append(i.labels, longLabel(l))
	}
	l, err := Listen(path)
	if err == nil {
		err = i.accept()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	s := serve(l, i, Options{}, quiet())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	s.stop()
	if err := <-s.ended; err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// longLabel lets two sockets into a message, so that three are two messages.
func longLabel(l *sock.Listener) Label {
	return Label{Name: strings.Repeat("x", 25<<10), Origin: "bind", StoreName: l.StoreName()}
}

// runReplacement makes the requests that it is told, and says how it went. "send X"
// makes one without waiting for the answer.
func runReplacement(path string) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := Dial(path)
	fmt.Println("dial", err)
	if err != nil {
		return 1
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		request, only := strings.CutPrefix(in.Text(), "send ")
		m := message{Type: request, Protocol: protocol, Features: features}
		if only {
			fmt.Println("sent", s.conn.send(ctx, m))
			continue
		}
		_, _, err := s.exchange(ctx, m)
		fmt.Println(request, err)
	}
	return 0
}

func TestReplacementsOfAnotherUserAreClosedAtOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	path := socketPath(t)
	log := &logBuffer{}
	i := newInstance("original", listen(t, loopback(0)))
	startInstance(t, path, i, Options{}, log.logger())
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(path)), 0o711))
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o711))
	require.Equal(t, "dial handover socket "+path+": permission denied: its own user and root may connect",
		startProcess(t, "replacement", nobody, path).says(t))

	require.NoError(t, os.Chmod(path, 0o666)) // somebody's mistake
	for range 3 {
		stranger := startProcess(t, "replacement", nobody, path)
		require.Equal(t, "dial <nil>", stranger.says(t))
		require.Contains(t, stranger.do(t, hello), "Hello: it has gone")
	}
	require.Equal(t, 1, log.count("another user refused"), "the log is flooded")
	require.Equal(t, 1, log.count("uid=65534"))
	require.Empty(t, i.heard())
	takeOver(t, path, "replacement")
}

const nobody = 65534

func TestNobodyTakesOverFromAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	path := "@" + socketPath(t) // where nobody may bind, too
	original := startProcess(t, "original", nobody, path)
	require.Equal(t, "ready", original.says(t))
	_, err := Dial(path)
	require.ErrorContains(t, err, "runs as user 65534: only this process's user and root can be taken over from")
}

// It is asked while it is stopped, and looks at the request when who has asked is dead.
func TestWhoHasDiedSinceItAskedTakesNothingOver(t *testing.T) {
	path := socketPath(t)
	dir := t.TempDir()
	original := startProcess(t, "original", os.Geteuid(), path, dir+"/x.sock")
	require.Equal(t, "ready", original.says(t))
	ctx := deadline(t)
	s, got := receiveAll(t, path)
	closeReceived(t, got)
	require.Equal(t, "sockets", original.says(t))
	require.NoError(t, s.BeginDrainingConnections(ctx, 0))
	require.Equal(t, "drain 0s", original.says(t))

	original.stop(t)
	require.NoError(t, s.conn.send(ctx, message{Type: shutdownOriginalNode}))
	require.NoError(t, s.Close())
	original.goOn(t)
	require.Equal(t, "abandoned", original.says(t))
	name, err := greeting(sock.Unix(dir + "/x.sock"))
	require.NoError(t, err)
	require.Equal(t, "original", name)
	takeOver(t, path, "replacement")
}

func TestAStoppedOriginalIsHungAndCanBeTakenOverAllTheSame(t *testing.T) {
	path := socketPath(t)
	listens := filepath.Join(t.TempDir(), "x.sock")
	original := startProcess(t, "original", os.Geteuid(), path, listens)
	require.Equal(t, "ready", original.says(t))
	original.stop(t)

	s := dialSession(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := s.Hello(ctx, "")
	require.ErrorIs(t, err, ErrHung)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = s.Hello(deadline(t), "")
	require.ErrorIs(t, err, errOver, "a late answer would be taken for another one's")

	require.Equal(t, original.cmd.Process.Pid, s.Process().PID())
	found, err := s.Process().ListeningSockets(deadline(t))
	require.NoError(t, err)
	clients := startWaiting(t, []sock.Addr{sock.Unix(listens)})
	require.NoError(t, s.Process().Signal(unix.SIGKILL))
	require.NoError(t, s.Process().Wait(deadline(t)))
	var got []Received
	for _, f := range found {
		if f.Info.Addr.Network == "unixpacket" { // the handover socket: one of our own follows
			require.NoError(t, f.FD.Close())
			continue
		}
		got = append(got, Received{FD: f.FD})
	}
	_, err = Dial(path)
	require.ErrorIs(t, err, ErrNobody)
	startInstance(t, path, adopt(t, "replacement", got), Options{}, quiet())
	clients.requireNoneLost(t)
}

func TestWhoGivesUpWaitingDoesNotCallTheOriginalHung(t *testing.T) {
	path := socketPath(t)
	original := startProcess(t, "original", os.Geteuid(), path, filepath.Join(t.TempDir(), "x.sock"))
	require.Equal(t, "ready", original.says(t))
	original.stop(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := dialSession(t, path).Hello(ctx, "")
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrHung)
}

// SO_PEERCRED of a socket that is passed on is that of who has listened last.
func TestTheHandoverSocketSaysWhoHasItNow(t *testing.T) {
	path := socketPath(t)
	original := startProcess(t, "original", os.Geteuid(), path, filepath.Join(t.TempDir(), "x.sock"))
	require.Equal(t, "ready", original.says(t))
	require.Equal(t, original.cmd.Process.Pid, dialSession(t, path).Process().PID())
	takeOver(t, path, "replacement")
	require.Equal(t, os.Getpid(), dialSession(t, path).Process().PID())
}

func TestWithoutFreeDescriptorsTheOriginalPausesAndGoesOn(t *testing.T) {
	path := socketPath(t)
	original := startProcess(t, "original", os.Geteuid(), path, filepath.Join(t.TempDir(), "x.sock"))
	require.Equal(t, "ready", original.says(t))
	pid := original.cmd.Process.Pid
	warm := dialSession(t, path) // it serves, so it has what it needs
	_, err := warm.Hello(deadline(t), "")
	require.NoError(t, err)
	require.NoError(t, warm.Close())
	require.Equal(t, "abandoned", original.says(t))

	var before unix.Rlimit
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 20000}, &before))
	s := dialSession(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = s.Hello(ctx, "")
	require.ErrorIs(t, err, ErrHung)
	require.NoError(t, s.Close())
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil))
	takeOver(t, path, "replacement")
}
