package vmtest_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

const liveConfig = `
[listener.streams]
upstream = "app"
listen = ["tcp://127.0.0.1:8080", "tcp://[::1]:8080", "unix:///run/holdfast/streams.sock"]
[upstream.app]
servers = "` + app + `"
`

// awaitAllKept: in a moment so many connections live, each of which outlives the process,
// and none was lost.
func awaitAllKept(t *testing.T, g *vmtest.Guest, connections int) (s vmtest.Status) {
	t.Helper()
	g.Await("all connections", func() bool {
		s = g.Status()
		return s.Connections.Active == connections
	})
	assert.Equal(t, connections, s.Connections.Kept)
	assert.Zero(t, s.Connections.Lost)
	return s
}

// killAndAwait kills the process, and waits until systemd has started the next one, for
// the nth time since somebody did.
func killAndAwait(g *vmtest.Guest, n int) {
	kill(g)
	g.AwaitUnit(service, "NRestarts", strconv.Itoa(n))
	g.Run("systemctl", "start", service) // which it is about to do, or has done
}

// round is a restart, a kill, and an upgrade to another build. In one script it takes an
// emulated machine less time.
const round = `systemctl restart holdfast
systemctl kill --signal=KILL holdfast
until [ "$(systemctl show --value --property=NRestarts holdfast)" = 1 ]; do sleep 0.1; done
systemctl start holdfast # which systemd is about to do, or has done
install -m 755 $1 /usr/bin/holdfast.new
mv /usr/bin/holdfast.new /usr/bin/holdfast
holdfast upgrade`

// The next build takes over from the present one, and that one from it.
func TestConnectionsOutliveRestartsKillsAndUpgrades(t *testing.T) {
	const rounds, tcpStreams, unixStreams = 20, 450, 100
	builds := []string{"holdfast-next", "holdfast"}
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(liveConfig + lastingConfig())
		g.StartEcho(app)
		clients := prepareLasting(t, g)
		g.Run("systemctl", "start", service)
		versions := []string{"next", g.Status().Version}
		const beat = 10 * time.Second // so that an emulated machine keeps up
		loads := []*vmtest.Running{
			g.StartLoad(vmtest.Load{Streams: tcpStreams, Callers: -1, Beat: beat, Patience: time.Minute}, "tcp://127.0.0.1:8080", "tcp://[::1]:8080"),
			g.StartLoad(vmtest.Load{Streams: unixStreams, Callers: -1, Beat: beat, Patience: time.Minute}, "unix:///run/holdfast/streams.sock"),
		}
		connections := clients.begin() + 2*tcpStreams + unixStreams
		awaitAllKept(t, g, connections)
		began := time.Now()
		for i := range rounds {
			g.Run("sh", "-e", "-c", round, "sh", wire.Dir+"/"+builds[i%2])
			s := awaitAllKept(t, g, connections)
			assert.Equal(t, versions[i%2], s.Version)
		}
		t.Logf("%d connections through %d restarts, kills and upgrades each, in %v", connections, rounds, time.Since(began).Round(time.Second))
		assertMain(t, g, strconv.Itoa(g.Status().PID))
		clients.assertUndisturbed()
		for _, load := range loads {
			assertNoneLost(t, load.Stop())
		}
		g.Run("systemctl", "stop", service)
		assert.Zero(t, stored(t, g))
	})
}
