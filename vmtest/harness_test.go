package vmtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

func TestAScenarioFindsNothingOfTheLastOne(t *testing.T) {
	t.Run("last", func(t *testing.T) {
		vmtest.EachRelease(t, func(_ *testing.T, g *vmtest.Guest) {
			g.Install(webToApp())
			g.DropIn("holdfast.socket", "[Socket]\nListenStream=8081\n")
			g.StartEcho(app)
			g.Run("systemctl", "start", "holdfast.socket")
			g.StartLoad(vmtest.Load{}, web)
		})
	})
	t.Run("next", func(t *testing.T) {
		vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
			assert.Empty(t, g.Run("systemctl", "list-units", "--all", "--plain", "--no-legend", "holdfast*", "vmtest-*"))
			assert.Empty(t, string(g.Try("systemctl", "list-unit-files", "--no-legend", "holdfast*").Stdout))
			assert.Empty(t, g.Run("ss", "-tlnH"))
			assert.NotZero(t, g.Try("test", "-e", vmtest.ConfigFile).Code)
			assert.NotZero(t, g.Try("test", "-e", "/usr/bin/holdfast").Code)
			assert.NotZero(t, g.Try("id", "holdfast").Code)
		})
	})
}

func TestALoadHasTheTimeToStartThatItsClientsHave(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.StartEcho(app)
		load := g.StartLoad(vmtest.Load{Streams: 1, Callers: -1, Patience: 4 * time.Minute}, app)
		assert.Equal(t, "4min 10s", g.Property("vmtest-load-1", "TimeoutStartUSec"))
		assert.Equal(t, "4min 10s", g.Property("vmtest-load-1", "TimeoutStopUSec"))
		assertNoneLost(t, load.Stop())
	})
}
