package vmtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

const (
	fresh = "tcp://127.0.0.1:8085" // each refused configuration wants it, too
	taken = "tcp://127.0.0.1:9001" // another program has it
)

// refusals are what a reload is refused for. The service has no capability.
var refusals = []struct {
	what    string
	add     string // to the listener web
	tail    string // of the file
	command string // for the file
	reason  string
}{
	{what: "a port that another program has", add: taken, reason: "listener web (tcp 127.0.0.1:9001): address already in use"},
	{what: "an address of another host", add: "tcp://203.0.113.7:8081", reason: "listener web (tcp 203.0.113.7:8081): cannot assign requested address"},
	{what: "a port below 1024", add: "tcp://127.0.0.1:81", reason: "listener web (tcp 127.0.0.1:81): permission denied"},
	{what: "a path that cannot be written", add: "unix:///etc/web.sock", reason: "listener web (unix /etc/web.sock): read-only file system"},
	{what: "broken syntax", tail: "[listener", reason: vmtest.ConfigFile + ":11:10: "},
	{what: "a missing upstream", tail: "[listener.x]\nlisten = 'tcp://:8086'\nupstream = 'no'", reason: vmtest.ConfigFile + `:13:1: listener.x.upstream: no upstream named "no"`},
	{what: "an unreadable file", command: "chmod", reason: vmtest.ConfigFile + ": cannot read: permission denied"},
	{what: "a missing file", command: "rm", reason: vmtest.ConfigFile + ": no configuration: the file does not exist"},
}

func TestARefusedReloadFailsAndChangesNothing(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Minute))
		g.DropIn(service, "[Service]\nAmbientCapabilities=\nCapabilityBoundingSet=\n")
		g.StartEcho(app, taken)
		g.Run("systemctl", "start", service)
		load := g.StartLoad(vmtest.Load{}, stays, staysPath)
		for i, r := range refusals {
			g.Write(vmtest.ConfigFile, staying(time.Minute, "web "+fresh+" "+r.add)+r.tail)
			switch r.command {
			case "chmod":
				g.Run("chmod", "0", vmtest.ConfigFile)
			case "rm":
				g.Run("rm", vmtest.ConfigFile)
			}
			began := time.Now()
			assert.NotZero(t, g.Try("systemctl", "reload", service).Code, r.what)
			assert.Less(t, time.Since(began), 20*time.Second, r.what)
			refused := assertSockets(t, g, i+1, withStaying(i+1)...)
			assert.Contains(t, refused.Listeners.LastError, r.reason, r.what)
			assertRefused(t, g, fresh, r.what)

			reload(g, staying(time.Minute))
			assert.Empty(t, assertSockets(t, g, i+2, withStaying(i+2)...).Listeners.LastError)
		}
		for _, r := range refusals {
			assertLogged(t, g, "3", "configuration refused: "+r.reason)
		}
		assertStored(t, g, 2)
		assert.Equal(t, "0", g.Property(service, "NRestarts"))
		assertNoneLost(t, load.Stop())
	})
}

// systemd reports success whatever such a service answers. It must answer.
func TestAReloadOfANotifyReloadUnitAlwaysEnds(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		if g.Systemd < 253 {
			t.Skip("Type=notify-reload came with systemd 253")
		}
		g.Install(staying(time.Minute))
		g.DropIn(service, "[Service]\nType=notify-reload\nExecReload=\n")
		g.StartEcho(app, taken)
		g.Run("systemctl", "start", service)
		load := g.StartLoad(vmtest.Load{}, stays, staysPath)
		for generation := 1; generation < 5; {
			reload(g, staying(time.Minute, "web "+taken))
			refused := assertSockets(t, g, generation, withStaying(generation)...)
			assert.Contains(t, refused.Listeners.LastError, "address already in use")
			require.Equal(t, "active", g.Property(service, "ActiveState"))

			generation++
			reload(g, staying(time.Minute))
			assert.Empty(t, assertSockets(t, g, generation, withStaying(generation)...).Listeners.LastError)
			require.Equal(t, "active", g.Property(service, "ActiveState"))
		}
		assertNoneLost(t, load.Stop())
	})
}
