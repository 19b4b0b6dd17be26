package vmtest_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// ownSockets are those that no socket unit has, so that only the store keeps them.
var ownSockets = []string{"tcp://127.0.0.1:8080", "tcp://[::1]:8080", "unix:///run/holdfast/web.sock"}

func TestOwnSocketsOutliveRestartsAndKills(t *testing.T) {
	endings := []struct {
		what string
		ends int
		loss int // new connections that each end may cut off at most
		end  func(g *vmtest.Guest)
	}{
		{"a restart", 1, 0, restart},
		{"a restart after systemd itself began anew", 1, 0, func(g *vmtest.Guest) { g.Run("systemctl", "daemon-reexec"); restart(g) }},
		{"a kill", 1, 6, kill},
		{"10 quick restarts", 10, 0, restart},
		{"20 kills in 10 s", 20, 6, func(g *vmtest.Guest) { kill(g); time.Sleep(rand.N(time.Second)) }},
	}
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToAppDraining(100*time.Millisecond, ownSockets...))
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		assertSockets(t, g, 1, allActive("bind", 1, ownSockets...)...)
		assertStored(t, g, len(ownSockets))
		for _, e := range endings {
			load := g.StartLoad(vmtest.Load{Streams: -1}, ownSockets...)
			for range e.ends {
				e.end(g)
			}
			g.AwaitUnit(service, "ActiveState", "active")
			r := load.Stop()
			assert.Zero(t, r.New.Refused, e.what)
			assert.Zero(t, r.New.Timeout, e.what)
			assert.LessOrEqual(t, r.New.Bad(), e.ends*e.loss, e.what)
			assertSockets(t, g, 1, allActive("store", 1, ownSockets...)...)
			assertStored(t, g, len(ownSockets))
		}
	})
}
