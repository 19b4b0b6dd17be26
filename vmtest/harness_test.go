package vmtest_test

import (
	"testing"

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
