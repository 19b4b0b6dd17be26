package vmtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// A stopped process is a good likeness of one that hangs, but for the moment between
// systemd's SIGCONT and its death, in which it may accept.
func TestAServiceThatHangsIsReplacedAndWhoWaitedIsServed(t *testing.T) {
	const clients = 20
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp(web))
		g.DropIn(service, "[Service]\nWatchdogSec=5s\n")
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		streams := g.StartLoad(vmtest.Load{Callers: -1, Patience: time.Minute}, web)
		g.Run("systemctl", "kill", "--signal=STOP", service)
		load := g.StartLoad(vmtest.Load{Streams: -1, Callers: clients}, web) // is ready when each is served
		assert.Equal(t, "1", g.Property(service, "NRestarts"))
		assertNoneLost(t, streams.Stop())
		assertSockets(t, g, 1, allActive("store", 1, web)...)
		assertNobodyRefused(t, load.Stop(), clients)
	})
}
