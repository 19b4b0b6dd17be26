package vmtest_test

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

func TestTheShippedUnitsAreValid(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp())
		units := []string{"holdfast.service", "holdfast.socket", "holdfast-web.socket", "holdfast-redis.socket"}
		for _, unit := range units[2:] {
			g.WritePackaged(vmtest.LocalUnits+unit, "examples/several-sockets/"+unit)
		}
		for _, name := range []string{"dynamic-user", "exit-idle"} {
			g.WritePackaged(vmtest.LocalUnits+"holdfast.service.d/"+name+".conf", "examples/"+name+"/"+name+".conf")
		}
		r := g.Try(append([]string{"systemd-analyze", "verify", "--man=no"}, units...)...)
		assert.Zero(t, r.Code)
		assert.Empty(t, string(r.Stdout)+string(r.Stderr))
	})
}

// exposed is what systemd-analyze security marks with a cross, and Holdfast needs: the
// network as it is, ports below 1024, its configuration, notifications from a process
// that takes over, and descriptors of the one before it.
//
//go:embed testdata/exposed
var exposed string

func TestTheSandboxIsTightAndTheServiceWorksInIt(t *testing.T) {
	const path, linkLocal, metrics = "unix:///run/holdfast/web.sock", "tcp://[fe80::1%lo]:8081", "127.0.0.1:9117"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Run("ip", "address", "add", "fe80::1/64", "dev", "lo")
		defer g.Try("ip", "address", "delete", "fe80::1/64", "dev", "lo")
		g.Install(webToApp(path, linkLocal))
		g.DropIn("holdfast.service", "[Service]\nEnvironment=HOLDFAST_GLOBAL_METRICS=tcp://"+metrics+" HOLDFAST_GLOBAL_ACCESS_LOG=true\n")
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.socket", "holdfast.service")
		load := g.StartLoad(vmtest.Load{}, web, path, linkLocal)
		assert.Zero(t, g.Try("systemd-analyze", "security", "--threshold=20", service).Code)
		assert.Equal(t, strings.Split(strings.TrimSpace(exposed), "\n"), exposure(t, g))
		assert.Contains(t, g.Run("curl", "--silent", "--show-error", metrics+"/metrics"), "holdfast_")
		assertNoneLost(t, load.Stop())
		assert.Empty(t, g.Journal("holdfast.service", "PRIORITY=3", "PRIORITY=4"))
	})
}

// exposure is what systemd-analyze security marks with a cross, sorted.
func exposure(t *testing.T, g *vmtest.Guest) []string {
	t.Helper()
	var checks []struct{ Name, Description, Exposure string }
	require.NoError(t, json.Unmarshal([]byte(g.Run("systemd-analyze", "security", "--json=short", service)), &checks))
	var crosses []string
	for _, c := range checks {
		if c.Exposure != "" {
			crosses = append(crosses, c.Name+" "+c.Description)
		}
	}
	slices.Sort(crosses)
	return crosses
}
