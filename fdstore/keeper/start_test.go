package keeper_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
)

func TestTheServiceGetsWhatItsManagerOwesIt(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/another/manager")
	t.Setenv("LISTEN_FDS", "7")
	t.Setenv("LISTEN_PIDFDID", "7")
	t.Setenv("KEEPER_SOCKET", "@another")
	h := newHouse(t, keeper.Options{StoreMax: 7, Watchdog: 1500 * time.Millisecond, StopTimeout: patience})
	odd := []string{"", "--", "-x", "two words", "a\nb", "ü", "$HOME"}
	h.start(append([]string{"/proc/self/exe", "agent", h.listener.Addr().String()}, odd...)...)
	s := h.next()

	assert.Equal(t, odd, s.Arguments[1:])
	assert.Equal(t, []int{0, 1, 2}, s.Inherited)
	assert.Equal(t, h.keeper.Process.Pid, s.Parent)
	assert.Equal(t, s.PID, s.Session, "a session of its own")
	assert.Equal(t, s.PID, s.Group)
	assert.Equal(t, "7", s.variable("FDSTORE"))
	assert.Equal(t, "1500000", s.variable("WATCHDOG_USEC"))
	assert.Equal(t, strconv.Itoa(s.PID), s.variable("WATCHDOG_PID"))
	assert.True(t, strings.HasPrefix(s.variable("NOTIFY_SOCKET"), "@keeper/"), s.variable("NOTIFY_SOCKET"))
	assert.True(t, strings.HasPrefix(s.variable("KEEPER_SOCKET"), "@keeper/"), s.variable("KEEPER_SOCKET"))
	for _, v := range s.Environ {
		assert.False(t, strings.HasPrefix(v, "LISTEN_"), v)
	}
	assert.Equal(t, os.Getenv("PATH"), s.variable("PATH"))
	h.stop()
}

func TestTheStreamsAreTheKeepers(t *testing.T) {
	t.Parallel()
	h := newHouse(t, keeper.Options{Restart: keeper.RestartNever})
	cmd := h.command("sh", "-c", "cat; echo to stderr >&2; exit 7")
	cmd.Stdin = strings.NewReader("through stdin")
	var out strings.Builder
	cmd.Stdout = &out
	h.startAs(cmd)
	assert.Equal(t, 7, h.code())
	assert.Equal(t, "through stdin", out.String())
	assert.Contains(t, h.log(), "to stderr\n")
}

func TestTheLimitOfOpenFilesIsTheOneThatTheKeeperWasStartedWith(t *testing.T) {
	t.Parallel()
	h := newHouse(t, keeper.Options{StopTimeout: patience})
	h.wrapper = []string{"prlimit", "--nofile=500:4000"}
	h.start()
	// Go raises the soft limit to the hard one less one in each of its processes.
	assert.GreaterOrEqual(t, h.next().Files, uint64(3999))
	h.stop()

	h = newHouse(t, keeper.Options{Restart: keeper.RestartNever})
	h.wrapper = []string{"prlimit", "--nofile=500:4000"}
	cmd := h.command("sh", "-c", "ulimit -Sn")
	var out strings.Builder
	cmd.Stdout = &out
	h.startAs(cmd)
	require.Zero(t, h.code())
	assert.Equal(t, "500\n", out.String())
}

func TestAStoreThatCannotBePassedIsMadeSmaller(t *testing.T) {
	t.Parallel()
	h := newHouse(t, keeper.Options{StoreMax: 4096, StopTimeout: patience})
	h.wrapper = []string{"prlimit", "--nofile=1320:1320"}
	h.start()
	assert.Equal(t, "500", h.next().variable("FDSTORE"))
	assert.Contains(t, h.log(), "smaller than asked for")
	h.stop()
}

func TestNothingThatTheKeeperWasStartedWithReachesTheService(t *testing.T) {
	t.Parallel()
	h := newHouse(t, keeper.Options{StopTimeout: patience})
	leaked, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer leaked.Close()
	cmd := h.command("/proc/self/exe", "agent", h.listener.Addr().String())
	cmd.ExtraFiles = []*os.File{leaked, leaked}
	h.startAs(cmd)
	assert.Equal(t, []int{0, 1, 2}, h.next().Inherited)
	h.stop()
}

func TestSocketsOfTheKeeperArePassedBeforeTheStore(t *testing.T) {
	t.Parallel()
	h := newHouse(t, keeper.Options{StoreMax: 7, StopTimeout: patience})
	socket, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer socket.Close()
	// $$ is the number of the process that sh becomes.
	cmd := h.command("/proc/self/exe", "agent", h.listener.Addr().String())
	cmd.Args = append([]string{"sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=web:web exec "$0" "$@"`}, cmd.Args...)
	cmd.Path, err = exec.LookPath("sh")
	require.NoError(t, err)
	cmd.ExtraFiles = []*os.File{socket, socket}
	h.startAs(cmd)
	s := h.next()
	assert.Equal(t, []string{"web", "web"}, s.Names)
	s.push("mine", 1)
	s.exit(0)
	s = h.next()
	assert.Equal(t, []string{"web", "web", "mine"}, s.Names)
	assert.Equal(t, []int{0, 1, 2, 3, 4, 5}, s.Inherited)
	h.stop()
}

func TestACommandThatCannotBeRunIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, keeper.Options{})
	h.start("/nonexistent/command")
	assert.Equal(t, 125, h.code())
	assert.Contains(t, h.log(), "/nonexistent/command")
}

func TestACommandThatIsReplacedOnDiskIsTheNewOneAfterARestart(t *testing.T) {
	t.Parallel()
	h := newHouse(t, keeper.Options{Restart: keeper.RestartOnFailure})
	script := filepath.Join(h.dir, "command")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\nrm $0.done; mv $0.new $0; exit 1\n"), 0o700))
	require.NoError(t, os.WriteFile(script+".new", []byte("#!/bin/sh\necho the new one >&2\n"), 0o700))
	h.start(script)
	assert.Zero(t, h.code())
	assert.Contains(t, h.log(), "the new one\n")
}

func TestAStepWithoutAKeeperDoesNothing(t *testing.T) {
	t.Parallel()
	for name, files := range map[string][]*os.File{"no descriptor": nil, "nobody at the other end": {closedPipe(t)}} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "step", "echo", "it ran")
			cmd.ExtraFiles = files
			out, err := cmd.CombinedOutput()
			require.Error(t, err)
			assert.NotContains(t, string(out), "it ran")
		})
	}
}

func closedPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, w.Close())
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// descriptors counts what a process has open, but for files that the Go runtime opens at
// times of its own.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	return len(slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		return err != nil || strings.HasPrefix(to, "/sys/fs/cgroup")
	}))
}

func TestTheKeeperHasNothingOpenThatItNeedsNot(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StoreMax: 100, StopTimeout: patience})
	s := h.next()
	var before int
	for round := range 4 {
		s.push("x", 10)
		s.push("y", 5, "FDPOLL=0")
		s.push("z", 200)
		s.say("FDSTOREREMOVE=1", "FDNAME=x")
		s.say("FDSTOREREMOVE=1", "FDNAME=y")
		s.say("FDSTOREREMOVE=1", "FDNAME=z")
		s.do(request{Do: "job"})
		other := s.do(request{Do: "fork"}).Number
		h.next()
		s.say("MAINPID=" + strconv.Itoa(other))
		require.NoError(t, unix.Kill(other, unix.SIGKILL))
		s = h.next()
		s.say("READY=1")
		if round == 0 { // the Go runtime has opened what it needs
			before = descriptors(t, h.keeper.Process.Pid)
		}
	}
	assert.Equal(t, before, descriptors(t, h.keeper.Process.Pid))
	h.stop()
}
