package vmtest_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// ownSockets are those that no socket unit has, so that only the store keeps them.
var ownSockets = []string{"tcp://127.0.0.1:8080", "tcp://[::1]:8080", "unix:///run/holdfast/web.sock"}

func TestOwnSocketsOutliveRestarts(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToAppDraining(time.Minute, ownSockets...))
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		assertSockets(t, g, 1, allActive("bind", 1, ownSockets...)...)
		load := g.StartLoad(vmtest.Load{}, ownSockets...)
		for range 5 {
			restart(g)
		}
		assertSockets(t, g, 1, allActive("store", 1, ownSockets...)...)
		assertStored(t, g, len(ownSockets))
		g.Run("systemctl", "daemon-reexec") // the store is in another order then
		restart(g)
		assertSockets(t, g, 1, allActive("store", 1, ownSockets...)...)
		assertStored(t, g, len(ownSockets))
		assertNoneLost(t, load.Stop())
	})
}

// Who is accepted when the process is killed may be cut off, and nobody else.
func TestOwnSocketsOutlive20KillsIn10Seconds(t *testing.T) {
	const kills, clients = 20, 6
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp(ownSockets...))
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		load := g.StartLoad(vmtest.Load{Patience: time.Minute}, ownSockets...)
		for range kills {
			kill(g)
			time.Sleep(rand.N(time.Second)) // some hit a process that starts
		}
		awaitServing(g)
		assertSockets(t, g, 1, allActive("store", 1, ownSockets...)...)
		assertStored(t, g, len(ownSockets))
		assertOnlyAcceptedLost(t, load.Stop(), kills*clients)
	})
}
