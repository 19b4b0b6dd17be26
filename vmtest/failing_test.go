package vmtest_test

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// With systemd's own limit, 5 starts in 10 s, the service fails for good and takes
// the socket with it: clients are refused even when what is wrong is repaired.
func TestAServiceThatCannotStartKeepsItsClientsWaiting(t *testing.T) {
	const broken = "/run/broken"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp())
		g.DropIn("holdfast.service", "[Service]\nExecStartPre=/bin/sh -c 'test ! -e "+broken+"'\n")
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.socket")
		load := g.StartLoad(vmtest.Load{Streams: -1, Patience: time.Minute}, web)

		g.Write(broken, "")
		g.Run("systemctl", "kill", "--signal=KILL", "holdfast.service")
		g.Await("many starts that fail", func() bool {
			n, err := strconv.Atoi(g.Property("holdfast.service", "NRestarts"))
			return err == nil && n >= 10
		})
		assert.Equal(t, "active", g.Property("holdfast.socket", "ActiveState"))

		g.Run("rm", broken)
		g.AwaitUnit("holdfast.service", "ActiveState", "active")
		r := load.Stop()
		assert.Zero(t, r.New.Refused, r.Errors)
		assert.Zero(t, r.New.Timeout, r.Errors)
		assert.LessOrEqual(t, r.New.Bad(), 2, "only who was connected when the service was killed is lost")
	})
}

// A service that systemd does not restart by itself is started by the socket unit,
// for who waits. With systemd's own limit, 20 times in 2 s, the socket fails for
// good. An emulated machine is too slow for that many: it gets a burst of 3.
func TestASocketUnitGoesOnStartingAServiceThatCannotStart(t *testing.T) {
	const starts, client = "/run/starts", "exec 3<>/dev/tcp/127.0.0.1/8080; echo hello >&3; grep -q hello <&3"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp())
		g.Write(starts, "")
		g.DropIn("holdfast.service", "[Service]\nRestart=no\nExecStartPre=+/bin/sh -c 'echo >>"+starts+"; exit 1'\n")
		g.DropIn("holdfast.socket", "[Socket]\nTriggerLimitBurst=3\n")
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.socket")
		g.StartUnit("client", "--no-block", "--service-type=oneshot", "--remain-after-exit", "bash", "-c", client)
		g.Await("many starts that fail", func() bool { return bytes.Count(g.Read(starts), []byte("\n")) >= 10 })

		g.DropIn("holdfast.service", "[Service]\nRestart=no\n")
		g.AwaitUnit("holdfast.service", "ActiveState", "active")
		g.AwaitUnit("vmtest-client.service", "ActiveState", "active")
		assert.Equal(t, "success", g.Property("holdfast.socket", "Result"))
	})
}
