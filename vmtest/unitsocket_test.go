package vmtest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// systemd has the sockets of its units anyway: they take no place in the store, and
// clients of one that no listener wants wait for one that does.
func TestAReloadLetsGoOfAUnitsSocketAndTakesItAgain(t *testing.T) {
	const own = "tcp://127.0.0.1:8081"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		both := listeners(time.Minute, "own "+own) + "[listener.web]\nupstream = 'app'\n"
		g.Install(both)
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.socket", service)
		assertStored(t, g, 1)
		load := g.StartLoad(vmtest.Load{Callers: -1}, web)
		others := g.StartLoad(vmtest.Load{}, own)
		reload(g, listeners(time.Minute, "own "+own))
		assertSockets(t, g, 2, "tcp [::]:8080 draining systemd [1]", "tcp 127.0.0.1:8081 active bind [1 2]")
		startCalls(g, slices.Repeat([]string{web}, 10)...)
		awaitQueues(g, 1, 10)
		reload(g, both)
		g.AwaitUnit("vmtest-calls.service", "ActiveState", "active")
		assertSockets(t, g, 3, "tcp [::]:8080 draining systemd [1]", "tcp [::]:8080 active systemd [3]", "tcp 127.0.0.1:8081 active bind [1 3]")
		assertStored(t, g, 1)
		assertNoneLost(t, load.Stop())
		assertNoneLost(t, others.Stop())
		restart(g)
		assert.Empty(t, g.Call(web, own))
		assertSockets(t, g, 3, "tcp [::]:8080 active systemd [3]", "tcp 127.0.0.1:8081 active store [3]")
	})
}
