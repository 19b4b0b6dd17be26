package vmtest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

const socketUnit = "holdfast.socket"

// With systemd's own limit, 5 starts in 10 s, a unit that is restarted more often
// fails.
func TestSocketUnitsMayBeRestartedAsOftenAsOneLikes(t *testing.T) {
	const often = "for i in 1 2 3 4 5 6 7; do systemctl restart \"$@\" || exit; done"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install("")
		g.WritePackaged(vmtest.ConfigFile, "examples/several-sockets/holdfast.toml")
		units := []string{socketUnit, "holdfast-web.socket", "holdfast-redis.socket"}
		for _, unit := range units[1:] {
			g.WritePackaged(vmtest.LocalUnits+unit, "examples/several-sockets/"+unit)
		}
		g.StartEcho(app, "tcp://127.0.0.1:6379")
		g.Run(append([]string{"sh", "-c", often, "sh"}, units...)...)
		assert.Empty(t, g.Call(web, port80, "tcp://127.0.0.1:6380"))
	})
}

func TestTheInstructionsForChangingASocketUnitAreTrue(t *testing.T) {
	const other = "tcp://127.0.0.1:8081"
	blocks := instructions(t, "Change a socket unit")
	require.Len(t, blocks, 1)
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		follow := func() int { return g.Try("sh", "-e", "-c", blocks[0]).Code }
		change := func(settings string) { g.DropIn(socketUnit, "[Socket]\n"+settings) }
		g.Install(webToApp())
		g.StartEcho(app)
		g.Run("systemctl", "start", socketUnit, service)

		change("ListenStream=\nListenStream=8081\n")
		assert.Zero(t, follow())
		assert.Equal(t, []string{"tcp [::]:8081"}, socketsOf(g, "web", "systemd"))
		assert.Empty(t, g.Call(other))
		assertRefused(t, g, web, "nobody has the old port any more")

		change("")
		assert.NotZero(t, g.Try("systemctl", "restart", socketUnit).Code, "systemd does not do that while the service runs")
		assert.Zero(t, follow())
		assert.Equal(t, []string{"tcp [::]:8080"}, socketsOf(g, "web", "systemd"))
		assert.Empty(t, g.Call(web))

		change("FileDescriptorName=other\n")
		assert.NotZero(t, follow())
		assertLogged(t, g, "3", "no socket unit passes a descriptor named web")
		change("FileDescriptorName=web\n")
		assert.Zero(t, follow(), "the service is started again and again meanwhile")
		assert.Empty(t, g.Call(web))
		restart(g)
		assert.Empty(t, g.Call(web))
		assert.Equal(t, []string{"tcp [::]:8080"}, socketsOf(g, "web", "systemd"))
	})
}
