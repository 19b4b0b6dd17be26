package vmtest_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

const port80 = "tcp://127.0.0.1:80"

func TestPort80WithoutRoot(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp(port80))
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.service")
		load := g.StartLoad(vmtest.Load{}, port80)
		assert.Equal(t, "holdfast", userOfService(g))
		assertNoneLost(t, load.Stop())
	})
}

func TestPort80OfASocketUnitNeedsNoCapability(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp())
		g.DropIn("holdfast.socket", "[Socket]\nListenStream=\nListenStream=80\n")
		g.DropIn("holdfast.service", "[Service]\nAmbientCapabilities=\nCapabilityBoundingSet=\n")
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.socket")
		load := g.StartLoad(vmtest.Load{}, port80)
		assert.Equal(t, "0000000000000000", g.Run("sed", "-n", `s/^CapEff:\t//p`, procFile(g, "status")))
		assertNoneLost(t, load.Stop())
	})
}

func TestAUserThatExistsOnlyWhileTheServiceRuns(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp(port80))
		g.Run("userdel", "holdfast")
		g.WritePackaged(vmtest.LocalUnits+"holdfast.service.d/dynamic-user.conf", "examples/dynamic-user/dynamic-user.conf")
		g.StartEcho(app)
		assertUser := func() {
			assert.Equal(t, "holdfast", userOfService(g))
			assert.Empty(t, string(g.Try("grep", "^holdfast:", "/etc/passwd").Stdout))
		}
		g.Run("systemctl", "start", "holdfast.service")
		assertUser()
		load := g.StartLoad(vmtest.Load{Streams: -1}, port80) // what is connected is drained
		restart(g)                                            // it gets its runtime directory back
		assertUser()
		assertNoneLost(t, load.Stop())
		g.Run("systemctl", "stop", "holdfast.service")
		assert.NotZero(t, g.Try("id", "holdfast").Code)
	})
}

func userOfService(g *vmtest.Guest) string {
	return g.Run("stat", "--format=%U", procFile(g, "status"))
}

// procFile is a file of the service's process in /proc.
func procFile(g *vmtest.Guest, name string) string {
	return "/proc/" + strconv.Itoa(g.Status().PID) + "/" + name
}
