package integration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// successor is a process that has taken over. It is a child of this one, as its
// predecessor was.
type successor struct {
	pid   int
	ended chan unix.WaitStatus // gets how it ended
}

// upgrade has the installed program take over.
func upgrade(t testing.TB, holdfast *testbed.Holdfast) *successor {
	t.Helper()
	said, err := exec.Command(testbed.Binary, "upgrade", "--control-socket", holdfast.Control).CombinedOutput()
	pid := holdfast.Status(t).PID
	s := &successor{pid, make(chan unix.WaitStatus, 1)}
	go func() { s.ended <- reap(pid) }() // ends with the process
	t.Cleanup(func() {
		_ = unix.Kill(pid, unix.SIGKILL)
		s.awaitEnd(t)
	})
	require.NoError(t, err, "%s", said)
	require.Regexp(t, fmt.Sprintf(`^process %d has taken over from \d+\n$`, pid), string(said))
	return s
}

func reap(pid int) (status unix.WaitStatus) {
	for {
		if _, err := unix.Wait4(pid, &status, 0, nil); err != unix.EINTR {
			return status
		}
	}
}

// awaitEnd waits until the process has ended, and tells its exit code, -1 for a signal.
func (s *successor) awaitEnd(t testing.TB) int {
	t.Helper()
	select {
	case status := <-s.ended:
		s.ended <- status
		return status.ExitStatus()
	case <-time.After(patience):
		t.Fatalf("process %d still runs after %v", s.pid, patience)
		return 0
	}
}

// openIn is how many a process has open.
func openIn(t testing.TB, pid int) int {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	return len(open)
}

// resident is the memory of a process, in KiB.
func resident(t testing.TB, pid int) int {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, after, _ := bytes.Cut(content, []byte("VmRSS:"))
	kib, err := strconv.Atoi(string(bytes.Fields(after)[0]))
	require.NoError(t, err)
	return kib
}

// upgradable is an echo route on one socket of each kind, and two of one port. Its
// connections end by themselves.
func upgradable(t *testing.T) (testbed.Config, testbed.Route) {
	server := testbed.TCP(t)
	listen(t, server, echo)
	port := strconv.Itoa(testbed.Port(t))
	route := testbed.Route{
		Name: "echo",
		Listen: []string{
			"tcp://127.0.0.1:" + port, "tcp://127.0.0.2:" + port, "tcp://[::1]:" + port,
			"unix://" + filepath.Join(testbed.Dir(t), "listen.sock"), "unix://@holdfast-upgrade-" + port,
		},
		Servers: []string{server},
	}
	return testbed.Config{Global: `drain_timeout = "never"`, Routes: []testbed.Route{route}}, route
}

// It has an address and the sockets of a service.
func TestADemoTakesOverFromNobody(t *testing.T) {
	t.Parallel()
	cfg, route := upgradable(t)
	holdfast := testbed.StartHoldfast(t, cfg)
	pid := holdfast.Status(t).PID
	held := dial(t, route.Listen[0])
	demo := testbed.Start(t, testbed.Program{
		Path: testbed.Binary, Args: []string{"serve", "--demo", "--listen", route.Listen[0], "--control-socket", holdfast.Control},
	})
	assert.NotZero(t, demo.ExitCode(t, patience))
	assert.Contains(t, string(demo.Log()), fmt.Sprintf("in use by process %d", pid))
	requireEcho(t, held, "it goes on\n")
	assert.Equal(t, pid, holdfast.Status(t).PID)
}

// The trial of each replacement takes a second.
func TestUpgradesOneAfterTheOtherLoseNobodyAndLeaveNothing(t *testing.T) {
	t.Parallel()
	upgrades, warmUp := unlessShort(25, 4), 2
	cfg, route := upgradable(t)
	holdfast := testbed.StartHoldfast(t, cfg)
	eternal := dial(t, route.Listen[0])
	requireEcho(t, eternal, "before\n")
	load := startLoad(t, route.Listen...)
	var former []*successor
	var early, late [2]int
	for i := range upgrades {
		now := upgrade(t, holdfast)
		former = append(former, now)
		late = [2]int{openIn(t, now.pid), resident(t, now.pid)}
		if i == warmUp {
			early = late
		}
		require.NoError(t, eternal.SetDeadline(time.Now().Add(patience)))
		requireEcho(t, eternal, "through each process\n")
	}
	t.Logf("descriptors and KiB: %v after %d upgrades, %v after %d", early, warmUp+1, late, upgrades)
	assert.InDelta(t, early[0], late[0], 20, "clients come and go")
	assert.Less(t, late[1], early[1]+16<<10)
	assert.EqualValues(t, 1+upgrades, holdfast.Status(t).Generation)
	load.assertNoneLost(t)

	last := former[upgrades-1]
	for _, one := range former[:upgrades-1] {
		assert.Zero(t, one.awaitEnd(t), "it had no connection left")
	}
	assert.Zero(t, holdfast.ExitCode(t, patience), "it had no connection left, either")
	requireEcho(t, eternal, "still\n")
	require.NoError(t, eternal.Close())
	require.NoError(t, callOnce(route.Listen[0]))
	require.NoError(t, unix.Kill(last.pid, unix.SIGTERM))
	assert.Zero(t, last.awaitEnd(t))
	assert.NoFileExists(t, testbed.HostPort(route.Listen[3]), "the last one removes what the first one has made")
	left, err := filepath.Glob(filepath.Join(filepath.Dir(holdfast.Control), "*.sock"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// manyRoutes are listeners of all kinds, each with an upstream of its own, and their
// addresses.
func manyRoutes(t *testing.T, count int) (routes []testbed.Route, addresses []string) {
	server := testbed.TCP(t)
	listen(t, server, echo)
	dir := testbed.Dir(t)
	name := strconv.Itoa(testbed.Port(t))
	var port int
	for i := range count {
		var address string
		switch i % 5 {
		case 0:
			port = testbed.Port(t)
			address = fmt.Sprintf("tcp://127.0.0.1:%d", port)
		case 1:
			address = fmt.Sprintf("tcp://127.0.0.2:%d", port)
		case 2:
			address = fmt.Sprintf("tcp://[::1]:%d", port)
		case 3:
			address = fmt.Sprintf("unix://%s/%d.sock", dir, i)
		case 4:
			address = fmt.Sprintf("unix://@holdfast-%s-%d", name, i)
		}
		addresses = append(addresses, address)
		routes = append(routes, testbed.Route{Name: fmt.Sprintf("l%d", i), Listen: []string{address}, Servers: []string{server}})
	}
	return routes, addresses
}

func TestAnUpgradeTakesEveryListenerAlong(t *testing.T) {
	for _, count := range []int{1, unlessShort(1000, 300), unlessShort(3000, 600)} {
		t.Run(strconv.Itoa(count), func(t *testing.T) {
			routes, addresses := manyRoutes(t, count)
			holdfast := testbed.StartHoldfast(t, testbed.Config{Global: `drain_timeout = "never"`, Routes: routes})
			load := startLoad(t, addresses[:min(count, 30)]...)
			for range 2 {
				began := time.Now()
				upgrade(t, holdfast)
				t.Logf("upgrade: %v", time.Since(began).Round(time.Millisecond))
			}
			sockets := holdfast.Status(t).Listeners.Sockets
			require.Len(t, sockets, count)
			for _, s := range sockets {
				require.Equal(t, "handover", s.Origin, s.Socket)
			}
			for _, address := range addresses {
				require.NoError(t, callOnce(address), address)
			}
			load.assertNoneLost(t)
		})
	}
}

// installed is a name for the program, at which something else can be installed.
type installed struct{ path string }

func install(t *testing.T) installed {
	i := installed{filepath.Join(testbed.Dir(t), "holdfast")}
	i.good(t)
	return i
}

func (i installed) remove(t *testing.T) { require.NoError(t, os.RemoveAll(i.path)) }

func (i installed) good(t *testing.T) {
	i.remove(t)
	require.NoError(t, os.Symlink(testbed.Binary, i.path))
}

func (i installed) script(t *testing.T, text string) {
	i.remove(t)
	require.NoError(t, os.WriteFile(i.path, []byte(text), 0o700))
}

// start runs the program by that name.
func (i installed) start(t *testing.T, cfg testbed.Config) *testbed.Holdfast {
	return testbed.StartHoldfastUnder(t, cfg, "sh", "-c", `shift; exec "$0" "$@"`, i.path)
}

// failedUpgrade has an upgrade fail, and returns what it says.
func failedUpgrade(t *testing.T, holdfast *testbed.Holdfast) string {
	t.Helper()
	pid := holdfast.Status(t).PID
	cmd := exec.Command(testbed.Binary, "upgrade", "--control-socket", holdfast.Control)
	said, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, 1, cmd.ProcessState.ExitCode(), "%s", said)
	now := holdfast.Status(t)
	assert.Equal(t, pid, now.PID)
	assert.EqualValues(t, "running", now.State)
	require.NotEmpty(t, now.Handover.LastError)
	assert.Contains(t, string(said), strings.SplitN(now.Handover.LastError, "\n", 2)[0])
	return string(said)
}

// started is the process that was started last to take over.
func started(t *testing.T, holdfast *testbed.Holdfast) int {
	t.Helper()
	all := regexp.MustCompile(`started a replacement.* pid=(\d+)`).FindAllSubmatch(holdfast.Log(), -1)
	require.NotEmpty(t, all)
	pid, err := strconv.Atoi(string(all[len(all)-1][1]))
	require.NoError(t, err)
	return pid
}

func TestAnUpgradeToAProgramThatDoesNotWorkChangesNothing(t *testing.T) {
	t.Parallel()
	cfg, route := upgradable(t)
	program := install(t)
	holdfast := program.start(t, cfg)
	file := filepath.Join(filepath.Dir(holdfast.Control), "holdfast.toml")
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	held := dial(t, route.Listen[0])
	load := startLoad(t, route.Listen...)

	program.script(t, "#!/bin/sh\nkill -SEGV $$\n")
	assert.Contains(t, failedUpgrade(t, holdfast), "does not say why: see its log")
	assert.Equal(t, unix.SIGSEGV, reap(started(t, holdfast)).Signal())

	program.script(t, "#!/bin/sh\necho no such flag >&2\nexit 2\n")
	assert.Contains(t, failedUpgrade(t, holdfast), "does not say why: see its log")
	assert.Equal(t, 2, reap(started(t, holdfast)).ExitStatus())

	program.script(t, "garbage")
	assert.Contains(t, failedUpgrade(t, holdfast), "exec format error")
	program.remove(t)
	assert.Contains(t, failedUpgrade(t, holdfast), "no such file or directory")

	program.good(t)
	require.NoError(t, os.WriteFile(file, append(good, "\n[global]\nx = 1\n"...), 0o600))
	assert.Contains(t, failedUpgrade(t, holdfast), file+":")
	assert.Equal(t, 6, reap(started(t, holdfast)).ExitStatus())
	require.NoError(t, os.WriteFile(file, good, 0o600))

	requireEcho(t, held, "as if nothing had been\n")
	testbed.Run(t, testbed.Program{Path: testbed.Binary, Args: []string{"reload", "--control-socket", holdfast.Control}})
	upgrade(t, holdfast)
	assert.Empty(t, holdfast.Status(t).Handover.LastError)
	requireEcho(t, held, "of the first process\n")
	load.assertNoneLost(t)
}

// It takes the minute that a replacement has.
func TestAnUpgradeToAProgramThatHangsChangesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	cfg, route := upgradable(t)
	program := install(t)
	holdfast := program.start(t, cfg)
	load := startLoad(t, route.Listen...)
	program.script(t, "#!/bin/sh\nexec sleep 300\n")
	assert.Contains(t, failedUpgrade(t, holdfast), "the new process has not taken over")
	assert.Equal(t, unix.SIGKILL, reap(started(t, holdfast)).Signal())
	program.good(t)
	upgrade(t, holdfast)
	load.assertNoneLost(t)
}

func TestAnUpgradeIsRefusedWhereItWouldEndTheContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	t.Parallel()
	cfg, route := upgradable(t)
	holdfast := testbed.StartHoldfastUnder(t, cfg, "unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
	require.Equal(t, 1, holdfast.Status(t).PID)
	assert.Contains(t, failedUpgrade(t, holdfast), "run it under holdfast keep")
	require.NoError(t, callOnce(route.Listen[0]))
	holdfast.Signal(t, unix.SIGKILL) // unshare ignores what is milder
}
