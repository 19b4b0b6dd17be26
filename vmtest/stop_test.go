package vmtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// The socket unit is stopped before the service here. When one command names both,
// systemd may stop the service first, as it is ordered after the socket, and who
// comes while it drains waits in a queue that is closed at the end.

func TestAStopLetsConnectionsEnd(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToAppDraining(30 * time.Second))
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.socket")
		load := g.StartLoad(vmtest.Load{Streams: 8, Callers: -1}, web)
		g.Run("systemctl", "stop", "holdfast.socket")
		g.Run("systemctl", "stop", "--no-block", "holdfast.service")
		const refused = 7 // curl(1)
		g.Await("nobody new is let in", func() bool { return g.Try("curl", "--max-time", "5", "http://127.0.0.1:8080").Code == refused })
		assert.Equal(t, "deactivating", g.Property("holdfast.service", "ActiveState"))
		assertNoneLost(t, load.Stop())

		began := time.Now()
		g.AwaitUnit("holdfast.service", "ActiveState", "inactive")
		assert.Less(t, time.Since(began), 10*time.Second, "it ends with the last connection")
		assert.Equal(t, "success", g.Property("holdfast.service", "Result"))
	})
}

func TestAStopEndsWhatDoesNotEndByItself(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp())
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.socket")
		load := g.StartLoad(vmtest.Load{Streams: 8, Callers: -1}, web)
		g.Run("systemctl", "stop", "holdfast.socket")
		g.Run("systemctl", "stop", "holdfast.service")
		assert.Equal(t, "success", g.Property("holdfast.service", "Result"))
		assert.Zero(t, stored(t, g))
		r := load.Stop()
		assert.Equal(t, 8, r.Streams.Cut+r.Streams.Reset, "%+v", r.Streams)
		assert.Zero(t, r.Streams.Wrong)
	})
}
