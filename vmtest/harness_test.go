package vmtest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// Two tests in a row: the second finds nothing of the first.

func TestAScenarioLeavesUnitsAndFiles(t *testing.T) {
	vmtest.EachRelease(t, func(_ *testing.T, g *vmtest.Guest) {
		g.Install(webToApp())
		g.DropIn("holdfast.socket", "[Socket]\nListenStream=8081\n")
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.socket")
		g.StartLoad(vmtest.Load{}, web)
	})
}

func TestTheNextScenarioFindsNothingOfThem(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		assert.Empty(t, g.Run("systemctl", "list-units", "--all", "--plain", "--no-legend", "holdfast*", "vmtest-*"))
		assert.Empty(t, string(g.Try("systemctl", "list-unit-files", "--no-legend", "holdfast*").Stdout))
		assert.NotContains(t, g.Run("ss", "-tlnH"), ":9000")
		assert.NotContains(t, g.Run("ss", "-tlnH"), ":8080")
		assert.NotZero(t, g.Try("test", "-e", vmtest.ConfigFile).Code)
	})
}
