package integration

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// lasting is a kind of clients that stay connected, with the routes that they need. Its
// servers run before Holdfast does.
type lasting struct {
	name   string
	routes []testbed.Route
	begin  func(t *testing.T) (end func(t *testing.T)) // returns when all are connected; end tells whether one was disturbed
}

// liveUnderKeeper is an instance whose connections outlive it.
func liveUnderKeeper(t *testing.T, routes []testbed.Route, flags ...string) *testbed.Holdfast {
	t.Helper()
	return underKeeper(t, testbed.Config{Global: `drain_timeout = "1s"`, Routes: routes}, flags...)
}

// replaced ends a process by a signal, and tells which one serves then.
func replaced(t *testing.T, holdfast *testbed.Holdfast, former int, by unix.Signal) (pid int) {
	t.Helper()
	require.NoError(t, unix.Kill(former, by))
	return serving(t, holdfast, former)
}

// The keeper waits longer before each restart of a service that has not lived for 10 s:
// so these are few.
func TestUnderAKeeperConnectionsOutliveRestartsKillsAndUpgrades(t *testing.T) {
	kinds := []lasting{hashedStreams(t), benchmarkedRedis(t), benchmarkedPostgres(t), interactiveSSH(t)}
	var routes []testbed.Route
	for _, k := range kinds {
		routes = append(routes, k.routes...)
	}
	holdfast := liveUnderKeeper(t, routes)
	var ends []func(t *testing.T)
	for _, k := range kinds {
		ends = append(ends, k.begin(t))
	}
	active := holdfast.Status(t).Connections.Active
	pid := serving(t, holdfast, 0)
	rounds := unlessShort(3, 1)
	for range rounds {
		pid = replaced(t, holdfast, pid, unix.SIGTERM)
		replaced(t, holdfast, pid, unix.SIGKILL) // while it restores
		awaitAllKept(t, holdfast, active)
		pid = upgradeKept(t, holdfast)
		awaitAllKept(t, holdfast, active)
	}
	for i, k := range kinds {
		t.Run(k.name, ends[i])
	}
	t.Logf("%d connections through %d lives", active, 3*rounds+1)
}

// awaitAllKept: in a moment so many connections live, each of which outlives the process,
// and none was lost.
func awaitAllKept(t *testing.T, holdfast *testbed.Holdfast, active int64) {
	t.Helper()
	counts := func() [3]int64 {
		c := holdfast.Status(t).Connections
		return [3]int64{c.Active, c.Kept, c.Lost}
	}
	testbed.EventuallyEqual(t, patience, "active, kept and lost connections", [3]int64{active, active, 0}, counts)
}

// takeOver starts another instance with the same configuration, which has to take over.
func takeOver(t *testing.T, from *testbed.Holdfast) *testbed.Holdfast {
	t.Helper()
	config := filepath.Join(filepath.Dir(from.Control), "holdfast.toml")
	next := testbed.Start(t, testbed.Program{Path: testbed.Binary, Args: []string{"serve", "--config", config, "--takeover", "always"}})
	holdfast := &testbed.Holdfast{Process: next, Control: from.Control}
	require.Equal(t, next.Pid(), serving(t, holdfast, from.Pid()))
	return holdfast
}

// Without a holder the next process takes them out of the one that hangs.
func TestConnectionsOfAProcessThatHangsGoOnInTheNextOne(t *testing.T) {
	streams := hashedStreams(t)
	cfg := testbed.Config{Routes: streams.routes}
	holdfast := testbed.StartHoldfast(t, cfg)
	end := streams.begin(t)
	active := holdfast.Status(t).Connections.Active
	require.NoError(t, unix.Kill(holdfast.Pid(), unix.SIGSTOP))
	time.Sleep(200 * time.Millisecond) // peers go on meanwhile
	next := takeOver(t, holdfast)
	assert.Equal(t, -1, holdfast.ExitCode(t, patience), "it is killed")
	testbed.EventuallyEqual(t, patience, "active and lost connections", [2]int64{active, 0}, func() [2]int64 {
		c := next.Status(t).Connections
		return [2]int64{c.Active, c.Lost}
	})
	end(t)
}
