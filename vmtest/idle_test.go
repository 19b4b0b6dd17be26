package vmtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// Clients come at random, more often than not while the service is about to exit,
// is exiting, is gone or is starting.
func TestExitWhenIdleLosesNobody(t *testing.T) {
	const exits, patience = 200, 10 * time.Minute
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp())
		g.DropIn("holdfast.service", "[Service]\nEnvironment=HOLDFAST_GLOBAL_EXIT_IDLE=20ms\n")
		g.WritePackaged(vmtest.LocalUnits+"holdfast.service.d/exit-idle.conf", "examples/exit-idle/exit-idle.conf")
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.socket")
		load := g.StartLoad(vmtest.Load{Streams: -1, Callers: 2, Pause: 100 * time.Millisecond}, web)
		starts := func() int { return len(g.Journal("holdfast.service", "CONFIG="+vmtest.ConfigFile)) }
		for end := time.Now().Add(patience); starts() < exits; time.Sleep(5 * time.Second) {
			require.True(t, time.Now().Before(end), "too slow")
		}
		assertNoneLost(t, load.Stop())
		assert.Equal(t, "success", g.Property("holdfast.socket", "Result"))
		g.AwaitUnit("holdfast.service", "ActiveState", "inactive")
		assert.Equal(t, "success", g.Property("holdfast.service", "Result"))
	})
}
