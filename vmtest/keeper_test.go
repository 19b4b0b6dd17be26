package vmtest_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// startKept runs the service under its own keeper, by a shell that starts the keeper
// again when it is killed, as any init would. Before the keeper may stand another command.
func startKept(g *vmtest.Guest, wrapper ...string) {
	const init = `until "$@"; do sleep 0.1; done`
	g.Install(webToAppDraining(time.Hour, ownSockets...))
	g.StartEcho(app)
	unit := []string{"--uid=holdfast", "--property=RuntimeDirectory=holdfast"}
	if len(wrapper) > 0 {
		unit = unit[1:] // it takes root
	}
	command := append(append(unit, "sh", "-c", init, "sh"), wrapper...)
	g.StartUnit("init", append(command, "holdfast", "keep", "--dir", "/run/holdfast/keep", "--", "holdfast", "serve")...)
	awaitServing(g)
	awaitKeeper(g)
}

func awaitKeeper(g *vmtest.Guest) {
	g.Await("a keeper that keeps", func() bool { return g.Status().Holder == "keeper" })
}

// childOf is the one child of a process.
func childOf(t *testing.T, g *vmtest.Guest, pid string) string {
	t.Helper()
	children := strings.Fields(g.Run("ps", "-o", "pid=", "--ppid", pid))
	require.Len(t, children, 1)
	return children[0]
}

// upgradeKept has another process take over.
func upgradeKept(t *testing.T, g *vmtest.Guest) {
	t.Helper()
	former := g.Status().PID
	g.Run("holdfast", "upgrade")
	s := g.Status()
	assert.NotEqual(t, former, s.PID)
	assert.Equal(t, "running", s.State)
	awaitKeeper(g) // a process that is no child of the keeper's introduces itself
}

func TestUnderAKeeperUpgradesAndTheDeathOfEitherRefuseNobody(t *testing.T) {
	const clients = 6
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		startKept(g)
		keeper := func() string { return childOf(t, g, g.Property("vmtest-init.service", "MainPID")) }
		load := g.StartLoad(vmtest.Load{}, ownSockets...)
		upgradeKept(t, g)
		former := keeper()
		g.Run("kill", "-KILL", former)
		g.Await("the next keeper", func() bool {
			line := g.Try("ps", "-o", "pid=,args=", "--ppid", g.Property("vmtest-init.service", "MainPID"))
			return strings.Contains(string(line.Stdout), "holdfast keep") && !strings.Contains(string(line.Stdout), former+" ")
		})
		awaitKeeper(g)
		upgradeKept(t, g)
		assertNoneLost(t, load.Stop())

		load = g.StartLoad(vmtest.Load{Patience: time.Minute}, ownSockets...)
		pid := strconv.Itoa(g.Status().PID)
		g.Run("kill", "-KILL", pid)
		g.Await("the next process", func() bool {
			return g.Try("holdfast", "status").Code == 0 && strconv.Itoa(g.Status().PID) != pid
		})
		for _, s := range g.Status().Listeners.Sockets {
			assert.Equal(t, "store", s.Origin, s.Socket)
		}
		upgradeKept(t, g)
		assertOnlyAcceptedLost(t, load.Stop(), clients)

		g.Run("kill", "-TERM", keeper())
		g.AwaitUnit("vmtest-init.service", "ActiveState", "inactive")
		assert.Equal(t, "success", g.Property("vmtest-init.service", "Result"))
		assert.Empty(t, string(g.Try("pidof", "holdfast").Stdout))
		for _, address := range ownSockets {
			assertRefused(t, g, address, "after the stop")
		}
	})
}

// As in a container: with PID 1 all ends.
func TestAKeeperThatIsPID1KeepsAnInstanceThatCanBeUpgraded(t *testing.T) {
	const clients = 6
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		startKept(g, "unshare", "--pid", "--fork", "--mount-proc")
		keeper := childOf(t, g, childOf(t, g, g.Property("vmtest-init.service", "MainPID")))
		load := g.StartLoad(vmtest.Load{}, ownSockets...)
		upgradeKept(t, g)
		upgradeKept(t, g)
		assertNoneLost(t, load.Stop())
		g.Await("the former end with their connections", func() bool {
			return len(strings.Fields(g.Run("ps", "-o", "pid=", "--ppid", keeper))) == 1
		})
		load = g.StartLoad(vmtest.Load{Patience: time.Minute}, ownSockets...)
		former := g.Status().PID
		g.Run("kill", "-KILL", childOf(t, g, keeper))
		g.Await("the next process", func() bool {
			return g.Try("holdfast", "status").Code == 0 && g.Status().PID != former
		})
		assertOnlyAcceptedLost(t, load.Stop(), clients)
		g.Run("kill", "-TERM", keeper)
		g.AwaitUnit("vmtest-init.service", "ActiveState", "inactive")
		assert.Empty(t, string(g.Try("pidof", "holdfast").Stdout))
	})
}
