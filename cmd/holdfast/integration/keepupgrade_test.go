package integration

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// keptUpgradable is an upgradable instance under a keeper that the next one can succeed.
func keptUpgradable(t *testing.T, global ...string) (*testbed.Holdfast, testbed.Route, string) {
	t.Helper()
	cfg, route := upgradable(t)
	cfg.Global = strings.Join(append(global, cfg.Global), "\n")
	dir := filepath.Join(testbed.Dir(t), "keep")
	return underKeeper(t, cfg, "--dir", dir), route, dir
}

// nextKeeper starts another keeper in the place of one that was killed.
func nextKeeper(t *testing.T, holdfast *testbed.Holdfast, dir string) *testbed.Process {
	t.Helper()
	config := filepath.Join(filepath.Dir(holdfast.Control), "holdfast.toml")
	next := testbed.Start(t, testbed.Program{
		Path: testbed.Binary,
		Args: []string{"keep", "--dir", dir, "--", testbed.Binary, "serve", "--config", config},
	})
	eventuallyLogs(t, next, "taken on: it runs already")
	return next
}

func eventuallyLogs(t *testing.T, p *testbed.Process, text string) {
	t.Helper()
	testbed.Eventually(t, patience, "it logs "+text, func() bool { return strings.Contains(string(p.Log()), text) })
}

// upgradeKept has the installed program take over: a child of the keeper, as its
// predecessor was.
func upgradeKept(t *testing.T, holdfast *testbed.Holdfast) (pid int) {
	t.Helper()
	former := holdfast.Status(t).PID
	testbed.Run(t, testbed.Program{Path: testbed.Binary, Args: []string{"upgrade", "--control-socket", holdfast.Control}})
	now := holdfast.Status(t)
	require.NotEqual(t, former, now.PID)
	assert.Equal(t, "keeper", now.Holder)
	return now.PID
}

func alive(pid int) bool { return unix.Kill(pid, 0) == nil }

// kill9 returns when the process is gone.
func kill9(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	testbed.Eventually(t, patience, "it is dead", func() bool { return !alive(pid) })
}

func TestUnderAKeeperUpgradesAndKillsRefuseNobody(t *testing.T) {
	holdfast, route, _ := keptUpgradable(t)
	load := startLoad(t, route.Listen...)
	const rounds = 3
	for range rounds {
		upgradeKept(t, holdfast)
		pid := upgradeKept(t, holdfast)
		kill9(t, pid)
		serving(t, holdfast, pid)
		for _, s := range holdfast.Status(t).Listeners.Sockets {
			assert.Equal(t, "store", s.Origin, s.Socket)
		}
	}
	load.assertLostAtMost(t, rounds*len(route.Listen)) // who is connected at a kill

	pid := upgradeKept(t, holdfast)
	holdfast.Signal(t, unix.SIGTERM)
	assert.Zero(t, holdfast.ExitCode(t, patience))
	assert.False(t, alive(pid))
	assertNothingLeft(t, holdfast, route)
}

// Who drains is part of the service.
func TestAStopOfTheKeeperWaitsForConnectionsOfFormerProcesses(t *testing.T) {
	holdfast, route, _ := keptUpgradable(t, `keep = "listeners"`)
	held := dial(t, route.Listen[0])
	requireEcho(t, held, "before\n")
	former := holdfast.Status(t).PID
	pid := upgradeKept(t, holdfast)
	holdfast.Signal(t, unix.SIGTERM)
	testbed.Eventually(t, patience, "the one that serves has ended", func() bool { return !alive(pid) })
	eventuallyLogs(t, holdfast.Process, "waiting for former main processes")
	requireEcho(t, held, "still\n")
	require.NoError(t, held.Close())
	assert.Zero(t, holdfast.ExitCode(t, patience))
	assert.False(t, alive(former))
	assertNothingLeft(t, holdfast, route)
}

func assertNothingLeft(t *testing.T, holdfast *testbed.Holdfast, route testbed.Route) {
	t.Helper()
	for _, address := range route.Listen {
		_, err := testbed.Dial(address)
		assert.Error(t, err, address)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(holdfast.Control), "*.sock"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// One of the two may be killed at a time. The keeper takes an upgraded process on, and
// the next one can be upgraded, too, although it is no child of this keeper.
func TestUnderAKeeperThatIsKilledNobodyNotices(t *testing.T) {
	holdfast, route, dir := keptUpgradable(t)
	pid := serving(t, holdfast, 0)
	load := startLoad(t, route.Listen...)
	keeper := holdfast.Process
	const rounds = 3
	for round := range rounds {
		require.NoError(t, unix.Kill(keeper.Pid(), unix.SIGKILL))
		keeper.ExitCode(t, patience)
		require.True(t, alive(pid))
		testbed.EventuallyEqual(t, patience, "the holder", "none", func() string { return holdfast.Status(t).Holder })
		testbed.EventuallyEqual(t, patience, "how often it has told", round+1, func() int {
			return strings.Count(string(holdfast.Log()), "the keeper is gone") // all services have the first keeper's log
		})
		keeper = nextKeeper(t, holdfast, dir)
		testbed.EventuallyEqual(t, patience, "the holder", "keeper", func() string { return holdfast.Status(t).Holder })

		pid = upgradeKept(t, holdfast)
		eventuallyLogs(t, keeper, "another process is the main one")
		record, err := os.ReadFile(filepath.Join(dir, "main"))
		require.NoError(t, err)
		assert.Equal(t, strconv.Itoa(pid), strings.Fields(string(record))[0])
		time.Sleep(500 * time.Millisecond) // a keeper that took the end of the former for that of the service would start one more
		require.Equal(t, pid, holdfast.Status(t).PID)
		require.NotContains(t, string(keeper.Log()), "restarting")
	}
	load.assertNoneLost(t)

	load = startLoad(t, route.Listen...)
	kill9(t, pid)
	pid = serving(t, holdfast, pid)
	load.assertLostAtMost(t, len(route.Listen))
	keeper.Signal(t, unix.SIGTERM)
	assert.Zero(t, keeper.ExitCode(t, patience))
	testbed.Eventually(t, patience, "the process has ended", func() bool { return !alive(pid) })
	assertNothingLeft(t, holdfast, route)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	assert.Equal(t, "lock", left[0].Name())
}

// The next keeper knows neither the replacement nor what the one before it had.
func TestUnderAKeeperThatIsKilledDuringAnUpgradeTheNextOneHasEverything(t *testing.T) {
	for name, late := range map[string]bool{"the next during it": false, "the next after it": true} {
		t.Run(name, func(t *testing.T) {
			holdfast, route, dir := keptUpgradable(t)
			pid := serving(t, holdfast, 0)
			held := dial(t, route.Listen[0])
			requireEcho(t, held, "before\n")
			upgrade := testbed.Start(t, testbed.Program{Path: testbed.Binary, Args: []string{"upgrade", "--control-socket", holdfast.Control}})
			eventuallyLogs(t, holdfast.Process, "the replacement accepts")
			require.NoError(t, unix.Kill(holdfast.Pid(), unix.SIGKILL))
			holdfast.ExitCode(t, patience)
			if late {
				require.Zero(t, upgrade.ExitCode(t, patience))
				testbed.Eventually(t, patience, "the original has ended", func() bool { return !alive(pid) })
			}
			config := filepath.Join(filepath.Dir(holdfast.Control), "holdfast.toml")
			keeper := testbed.Start(t, testbed.Program{
				Path: testbed.Binary,
				Args: []string{"keep", "--dir", dir, "--", testbed.Binary, "serve", "--config", config},
			})
			if !late {
				require.Zero(t, upgrade.ExitCode(t, patience))
			}
			testbed.Eventually(t, patience, "the connection is kept", func() bool {
				s, ok := statusBetween(holdfast)
				return ok && s.Holder == "keeper" && s.Connections.Kept == 1
			})
			pid = holdfast.Status(t).PID
			kill9(t, pid)
			serving(t, holdfast, pid)
			for _, s := range holdfast.Status(t).Listeners.Sockets {
				assert.Equal(t, "store", s.Origin, s.Socket)
			}
			requireEcho(t, held, "after\n")
			require.NoError(t, held.Close())
			keeper.Signal(t, unix.SIGTERM)
			assert.Zero(t, keeper.ExitCode(t, patience))
		})
	}
}
