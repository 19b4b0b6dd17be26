package vmtest_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// With systemd's own limit, 5 starts in 10 s, the service fails for good and takes
// the socket with it: clients are refused even when the configuration is repaired.
func TestAServiceThatCannotStartKeepsItsClientsWaiting(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp())
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.socket")
		load := g.StartLoad(vmtest.Load{Streams: -1, Patience: time.Minute}, web)

		g.Write(vmtest.ConfigFile, "no configuration")
		g.Run("systemctl", "kill", "--signal=KILL", "holdfast.service")
		starts := 25
		if g.Systemd >= 254 {
			starts = 5 // they get rarer and rarer
		}
		g.Await("many starts that fail", func() bool {
			n, err := strconv.Atoi(g.Property("holdfast.service", "NRestarts"))
			return err == nil && n >= starts
		})
		assert.Equal(t, "active", g.Property("holdfast.socket", "ActiveState"))

		g.Write(vmtest.ConfigFile, webToApp())
		g.AwaitUnit("holdfast.service", "ActiveState", "active")
		r := load.Stop()
		assert.Zero(t, r.New.Refused, r.Errors)
		assert.Zero(t, r.New.Timeout, r.Errors)
		assert.LessOrEqual(t, r.New.Bad(), 2, "only who was connected when the service was killed is lost")
	})
}
