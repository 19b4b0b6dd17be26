package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// A process that cannot map the vault, as it may have less address space than that takes.
// What it cannot open is not lost: it is tried again, and goes over in an upgrade.
func TestConnectionsThatCannotBeOpenedYetGoOverInAnUpgrade(t *testing.T) {
	holdfast, route := kept(t)
	conn := dial(t, route.Listen[0])
	requireEcho(t, conn, "before\n")
	pid := serving(t, holdfast, 0)

	var limit unix.Rlimit
	require.NoError(t, unix.Prlimit(holdfast.Pid(), unix.RLIMIT_AS, nil, &limit))
	few := unix.Rlimit{Cur: 3 << 30, Max: limit.Max}
	require.NoError(t, unix.Prlimit(holdfast.Pid(), unix.RLIMIT_AS, &few, nil)) // of the keeper, and whom it starts
	pid = replaced(t, holdfast, pid, unix.SIGKILL)
	now := holdfast.Status(t).Connections
	assert.Zero(t, now.Restored)
	another := dial(t, route.Listen[0])
	requireEcho(t, another, "served meanwhile\n")
	testbed.Eventually(t, patience, "it counts as not kept", func() bool {
		now := holdfast.Status(t).Connections
		return now.Active == 1 && now.Kept == 0 && now.Unkept == 1
	})

	for _, one := range []int{holdfast.Pid(), pid} {
		require.NoError(t, unix.Prlimit(one, unix.RLIMIT_AS, &limit, nil))
	}
	upgradeKept(t, holdfast)
	requireEcho(t, conn, "after\n")
	now = holdfast.Status(t).Connections
	assert.EqualValues(t, 1, now.Restored)
	assert.Zero(t, now.Lost)
}
