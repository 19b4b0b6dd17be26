package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

func init() {
	children["an instance"] = func() error {
		_ = os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
		if os.Getenv("DNS") == "silent" {
			net.DefaultResolver.PreferGo = true
			net.DefaultResolver.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
		if most, err := strconv.ParseUint(os.Getenv("NOFILE"), 10, 64); err == nil {
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}); err != nil {
				return err
			}
		}
		if long, err := time.ParseDuration(os.Getenv("TRIAL")); err == nil {
			trial = long
		}
		if long, err := time.ParseDuration(os.Getenv("PATIENCE")); err == nil {
			requestPatience = long
		}
		o := Options{Source: config.Source{File: os.Getenv("FILE")}, Version: "test", Takeover: TakeoverAuto}
		for _, arg := range os.Args[1:] {
			if how, ok := strings.CutPrefix(arg, "--takeover="); ok {
				o.Takeover = Takeover(how)
			}
		}
		return Run(o)
	}
}

// life is one process of an instance whose descriptors a manager keeps.
type life struct {
	t       *testing.T
	command *exec.Cmd
	control string
	log     logBook
	ended   bool
}

// live starts the next process, with what the manager has kept from the last one.
func (s *site) live(t *testing.T, m *storetest.Manager, environ ...string) *life {
	t.Helper()
	require.NoError(t, m.Notifier().Barrier(t.Context())) // systemd has read what a process sent before it starts the next
	return s.lifeOf(t, m.Socket(), m.Pass(), environ...)
}

// lived writes the file, and starts a process that serves it and is killed.
func (s *site) lived(t *testing.T, m *storetest.Manager) {
	t.Helper()
	s.write(t)
	first := s.live(t, m)
	first.status()
	first.end(unix.SIGKILL)
}

// apart has a process see no other one, as none of its control group: it has a PID name
// space of its own.
const apart = "APART=yes"

// lifeOf starts a process with those descriptors, under the manager at a path.
func (s *site) lifeOf(t *testing.T, notify string, passed []fdstore.Held, environ ...string) *life {
	t.Helper()
	l := &life{t: t, command: exec.Command("/proc/self/exe"), control: filepath.Join(s.dir, "control.sock")}
	var names []string
	for _, h := range passed {
		names = append(names, h.Name)
		file := os.NewFile(uintptr(h.FD.Disown()), h.Name)
		defer file.Close()
		l.command.ExtraFiles = append(l.command.ExtraFiles, file)
	}
	l.command.Env = append(os.Environ(), "DAEMON_TEST_CHILD=an instance", "FILE="+s.file, "NOTIFY_SOCKET="+notify,
		"DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nonexistent", "GORACE=atexit_sleep_ms=0")
	l.command.Env = append(l.command.Env, environ...)
	if len(names) > 0 {
		l.command.Env = append(l.command.Env, "LISTEN_FDS="+strconv.Itoa(len(names)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	}
	if slices.Contains(environ, apart) {
		l.command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	}
	l.command.Stderr = &l.log
	require.NoError(t, l.command.Start())
	t.Cleanup(func() {
		if !t.Failed() {
			l.end(unix.SIGKILL)
			return
		}
		l.dump()
		t.Logf("a process (%s) said:\n%s", l.command.ProcessState, l.log.String())
	})
	return l
}

// dump ends a process that still runs, with what its goroutines do in its log. One that
// is stopped goes on for that.
func (l *life) dump() {
	if l.ended {
		return
	}
	_ = l.command.Process.Signal(unix.SIGQUIT)
	_ = l.command.Process.Signal(unix.SIGCONT)
	stuck := time.AfterFunc(patience, func() { _ = l.command.Process.Kill() })
	defer stuck.Stop()
	l.gone()
}

// end sends a signal and waits for the end. It does nothing after the end.
func (l *life) end(signal unix.Signal) {
	l.t.Helper()
	if l.ended {
		return
	}
	l.ended = true
	require.NoError(l.t, l.command.Process.Signal(signal))
	_ = l.command.Wait()
}

// gone waits for an end that others have brought about.
func (l *life) gone() {
	l.ended = true
	_ = l.command.Wait()
}

// freeze returns when no thread of it runs any more.
func (l *life) freeze() {
	l.t.Helper()
	require.NoError(l.t, l.command.Process.Signal(unix.SIGSTOP))
	require.Eventually(l.t, func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", l.command.Process.Pid))
		require.NoError(l.t, err)
		for _, stat := range threads {
			text, err := os.ReadFile(stat)
			if err == nil && !strings.Contains(string(text), ") T ") {
				return false
			}
		}
		return true
	}, patience, time.Millisecond, "it does not stop")
}

// status is what it says once it serves.
func (l *life) status() status.Status {
	l.t.Helper()
	var s status.Status
	require.Eventually(l.t, func() bool {
		var err error
		s, err = control.NewClient(l.control).Status(l.t.Context())
		return err == nil && s.PID == l.command.Process.Pid && s.State == status.Running
	}, patience, 5*time.Millisecond, "it does not serve")
	return s
}

func (l *life) reload() error {
	l.t.Helper()
	_, err := control.NewClient(l.control).Reload(l.t.Context())
	return err
}

// origins are those of the active sockets.
func origins(s status.Status) map[string]string {
	found := map[string]string{}
	for _, l := range s.Listeners.Sockets {
		if l.State == status.SocketActive {
			found[l.Socket] = l.Origin
		}
	}
	return found
}

func (s *site) label(listener string) string {
	return "tcp " + strings.TrimPrefix(s.listen[listener][0], "tcp://")
}

func (s *site) dial(t *testing.T, listener string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.listen[listener][0], "tcp://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestKill9KeepsTheSocketsAndWhoComesMeanwhile(t *testing.T) {
	m := storetest.Start(t, 20)
	s := echoSite(t)
	path := s.dir + "/web.sock"
	s.listen["web"] = append(s.listen["web"], "unix://"+path)
	s.write(t)
	first := s.live(t, m)
	now := first.status()
	assert.Equal(t, status.HolderSystemd, now.Holder)
	assert.Equal(t, map[string]string{s.label("web"): "bind", "unix " + path: "bind"}, origins(now))
	first.end(unix.SIGKILL)

	waiting := s.dial(t, "web")
	unixWaiting, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer unixWaiting.Close()
	second := s.live(t, m)
	requireEcho(t, waiting)
	requireEcho(t, unixWaiting)
	now = second.status()
	assert.Equal(t, map[string]string{s.label("web"): "store", "unix " + path: "store"}, origins(now))
	assert.EqualValues(t, 1, now.Generation, "it is the same configuration")
	eventuallyStores(t, m, 3, "two sockets and the configuration")

	s.listen = map[string][]string{"web": {s.listen["web"][0]}}
	s.write(t)
	require.NoError(t, second.reload())
	assert.NoFileExists(t, path, "its owner is whoever has the socket now")
}

func TestATermWhoseReasonIsNotKnownLeavesTheSocketsToTheNext(t *testing.T) {
	m := storetest.Start(t, 20)
	s := echoSite(t)
	s.write(t)
	first := s.live(t, m)
	first.status()
	first.end(unix.SIGTERM)
	waiting := s.dial(t, "web")
	s.live(t, m)
	requireEcho(t, waiting)
}

func TestARestartWithABrokenFileGoesOnWithTheLastGoodOne(t *testing.T) {
	m := storetest.Start(t, 20)
	s := echoSite(t)
	s.write(t)
	first := s.live(t, m)
	first.status()
	require.NoError(t, first.reload())
	first.end(unix.SIGKILL)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()

	for text, reason := range map[string]string{
		"x = [": s.file + ":1:",
		"[listener.web]\nupstream = 'app'\nlisten = ['tcp://" + taken.Addr().String() + "']\n[upstream.app]\nservers = 'h:1'\n": "address already in use",
	} {
		require.NoError(t, os.WriteFile(s.file, []byte(text), 0o600))
		next := s.live(t, m)
		now := next.status()
		requireEcho(t, s.dial(t, "web"))
		assert.EqualValues(t, 2, now.Generation)
		require.Eventually(t, func() bool { return strings.Contains(next.status().Listeners.LastError, reason) }, patience, time.Millisecond)
		next.end(unix.SIGKILL)
	}
	s.write(t)
	last := s.live(t, m)
	now := last.status()
	assert.EqualValues(t, 2, now.Generation)
	assert.Empty(t, now.Listeners.LastError)
}

func TestWithNothingToLoseABrokenFileIsTheEnd(t *testing.T) {
	m := storetest.Start(t, 20)
	s := newSite(t)
	require.NoError(t, os.WriteFile(s.file, []byte("x = ["), 0o600))
	l := s.live(t, m)
	require.Error(t, l.command.Wait())
	l.ended = true
	assert.Contains(t, l.log.String(), s.file+":1:")
	assert.Empty(t, storedBy(m))
}

func TestWhoWaitsAtARemovedListenerIsServedByTheNextProcess(t *testing.T) {
	m := storetest.Start(t, 20)
	s := echoSite(t)
	s.listen["goes"] = []string{freeAddress(t)}
	s.write(t)
	first := s.live(t, m)
	first.status()
	first.freeze()
	var waiting []net.Conn
	for range 5 {
		waiting = append(waiting, s.dial(t, "goes"))
	}
	first.end(unix.SIGKILL)
	gone := s.listen["goes"][0]
	delete(s.listen, "goes")
	s.write(t)
	second := s.live(t, m)
	for _, conn := range waiting {
		requireEcho(t, conn)
	}
	now := second.status()
	assert.EqualValues(t, 2, now.Generation)
	require.Eventually(t, func() bool { return reachable(gone) != nil }, patience, time.Millisecond, "further clients are refused")
	for _, conn := range waiting {
		requireEcho(t, conn)
	}
	eventuallyStores(t, m, 2, "the store is rid of it")
	var draining []uint64
	for _, l := range second.status().Listeners.Sockets {
		if l.State == status.SocketDraining {
			draining = append(draining, l.Generations...)
		}
	}
	assert.Equal(t, []uint64{1}, draining)
}

func TestAReloadThatTheStoreHasNoRoomForIsRefused(t *testing.T) {
	m := storetest.Start(t, 4)
	s := newSite(t)
	s.write(t)
	l := s.live(t, m)
	l.status()
	kept := storedBy(m)
	s.listen["more"] = []string{freeAddress(t), freeAddress(t)}
	s.write(t)
	err := l.reload()
	require.ErrorContains(t, err, "descriptor store")
	now := l.status()
	assert.EqualValues(t, 1, now.Generation)
	assert.Contains(t, now.Listeners.LastError, "descriptor store")
	require.Error(t, reachable(s.listen["more"][0]))
	assert.ElementsMatch(t, kept, storedBy(m))

	delete(s.listen, "more")
	s.write(t)
	require.NoError(t, l.reload())
}

func TestAStartThatTheStoreHasNoRoomForServesAndSaysSo(t *testing.T) {
	m := storetest.Start(t, 3)
	s := echoSite(t)
	s.listen["more"] = []string{freeAddress(t), freeAddress(t)}
	s.write(t)
	l := s.live(t, m)
	l.status()
	requireEcho(t, s.dial(t, "web"))
	requireEcho(t, s.dial(t, "more"))
	assert.Empty(t, storedBy(m))

	delete(s.listen, "more")
	s.write(t)
	require.NoError(t, l.reload())
	eventuallyStores(t, m, 2, "what fits in now is kept, also a socket that did not before")
	l.end(unix.SIGTERM)
	assert.Contains(t, l.log.String(), "not kept when this process ends")
}

// Whenever the process is killed around a reload, the next one serves what the file
// says, and the store has exactly that.
func TestKill9AtAnyMomentOfAReload(t *testing.T) {
	m := storetest.Start(t, 50)
	s := echoSite(t)
	other := map[string][]string{"web": s.listen["web"], "more": {freeAddress(t)}}
	for round := range 25 {
		s.write(t)
		l := s.live(t, m)
		l.status()
		s.listen, other = other, s.listen
		s.write(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = control.NewClient(l.control).Reload(t.Context())
		}()
		time.Sleep(time.Duration(round) * 2 * time.Millisecond) // the moment of the kill
		l.end(unix.SIGKILL)
		<-done

		next := s.live(t, m)
		now := next.status()
		for name := range s.listen {
			requireEcho(t, s.dial(t, name))
			assert.Contains(t, origins(now), s.label(name), "round %d", round)
		}
		for name := range other {
			if _, wanted := s.listen[name]; !wanted {
				require.Eventually(t, func() bool { return reachable(other[name][0]) != nil }, patience, time.Millisecond)
			}
		}
		eventuallyStores(t, m, len(s.listen)+1, "round %d", round)
		next.end(unix.SIGKILL)
		assert.NotContains(t, next.log.String(), "no configuration knows", "round %d: who waits is served", round)
	}
}

func TestAStopDuringAStartLeavesWhatCameBackToTheNext(t *testing.T) {
	m := storetest.Start(t, 20)
	s := echoSite(t)
	s.listen["goes"] = []string{freeAddress(t)}
	s.lived(t, m)
	waiting := s.dial(t, "web")

	delete(s.listen, "goes")
	server := s.server
	s.server = "tcp://db.test:1"
	s.write(t)
	second := s.live(t, m, "DNS=silent")
	require.Eventually(t, func() bool { return strings.Contains(second.log.String(), "its queue is served") }, patience, time.Millisecond)
	second.end(unix.SIGTERM)

	s.server = server
	s.write(t)
	s.live(t, m)
	requireEcho(t, waiting)
}
