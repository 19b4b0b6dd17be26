package vmtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// The kept socket is alive, but nobody finds it.
func TestAUnixListenerWhosePathHasVanishedIsBoundAnew(t *testing.T) {
	const path = "/run/holdfast/stays.sock"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Second))
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		for _, vanished := range []string{path, "/run/holdfast"} {
			for _, end := range []func(*vmtest.Guest){restart, kill} {
				g.Run("rm", "-r", vanished)
				assertRefused(t, g, staysPath, vanished)
				end(g)
				awaitServing(g)
				assert.Empty(t, g.Call(stays, staysPath), vanished)
				assertSockets(t, g, 1, append(allActive("store", 1, stays), allActive("bind", 1, staysPath)...)...)
				assertStored(t, g, 2)
			}
		}
		restart(g)
		assertSockets(t, g, 1, allActive("store", 1, stays, staysPath)...)
	})
}
