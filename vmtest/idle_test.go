package vmtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// exitingWhenIdle installs a service that only its socket unit starts, and that ends
// after this time without a connection. Whom it accepts before it ends is cut off.
func exitingWhenIdle(g *vmtest.Guest, after time.Duration) {
	g.Install(webToAppDraining(0))
	g.DropIn(service, "[Service]\nEnvironment=HOLDFAST_GLOBAL_EXIT_IDLE="+after.String()+"\n")
	g.WritePackaged(vmtest.LocalUnits+"holdfast.service.d/exit-idle.conf", "examples/exit-idle/exit-idle.conf")
	g.StartEcho(app)
	g.Run("systemctl", "start", "holdfast.socket")
}

// Clients come at random and stay for a random time, so that many come while the
// service is about to exit, is exiting, is gone or is starting.
func TestExitWhenIdleLosesNobody(t *testing.T) {
	const exits = 200
	const idle = 20 * time.Millisecond
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		exitingWhenIdle(g, idle)
		load := g.StartLoad(vmtest.Load{Streams: -1, Callers: 2, Pause: 5 * idle, Hold: 5 * idle}, web)
		starts := func() int { return len(g.Journal(service, "CONFIG="+vmtest.ConfigFile)) }
		g.AwaitWithin(10*time.Minute, "enough exits", func() bool { return starts() >= exits })
		assertNoneLost(t, load.Stop())
		assert.Equal(t, "success", g.Property("holdfast.socket", "Result"))
		g.AwaitUnit(service, "ActiveState", "inactive")
		assert.Equal(t, "success", g.Property(service, "Result"))
		for _, said := range []string{"stopping: no connection for exit_idle", "stopped"} {
			assert.Len(t, g.Journal(service, "MESSAGE="+said), starts(), "%q: each exit is a stop in good order", said)
		}
	})
}

func TestIdleTimeBeginsWhenTheLastConnectionHasLeft(t *testing.T) {
	const idle = 3 * time.Second
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		exitingWhenIdle(g, idle)
		load := g.StartLoad(vmtest.Load{Streams: 1, Callers: -1}, web)
		pid := g.Status().PID
		time.Sleep(2 * idle)
		assert.Equal(t, pid, g.Status().PID)
		leaves := time.Now()
		assertNoneLost(t, load.Stop())
		g.AwaitUnit(service, "ActiveState", "inactive")
		assert.GreaterOrEqual(t, time.Since(leaves), idle)
	})
}
