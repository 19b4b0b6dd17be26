package vmtest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

func TestTheFirstConnectionStartsTheService(t *testing.T) {
	addresses := []string{"tcp://127.0.0.1:8080", "tcp://[::1]:8080", "unix:///run/web.sock"}
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp())
		g.DropIn("holdfast.socket", "[Socket]\nListenStream=\nBindIPv6Only=ipv6-only\n"+
			"ListenStream=0.0.0.0:8080\nListenStream=[::]:8080\nListenStream=/run/web.sock\n")
		g.StartEcho(app)
		for _, first := range addresses {
			g.Run("systemctl", "start", "holdfast.socket")
			assert.Equal(t, "inactive", g.Property("holdfast.service", "ActiveState"))
			one := g.StartLoad(vmtest.Load{Streams: -1, Callers: 1}, first)
			g.AwaitUnit("holdfast.service", "ActiveState", "active")
			all := g.StartLoad(vmtest.Load{}, addresses...)
			assert.Equal(t, []string{"tcp 0.0.0.0:8080", "tcp [::]:8080", "unix /run/web.sock"}, socketsOf(g, "web", "systemd"))
			assertNoneLost(t, one.Stop())
			assertNoneLost(t, all.Stop())
			g.Run("systemctl", "stop", "holdfast.socket", "holdfast.service")
		}
	})
}

func TestSeveralSocketUnitsServeOneService(t *testing.T) {
	const redis, unix = "tcp://127.0.0.1:6380", "unix:///run/holdfast-redis.sock"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install("")
		g.WritePackaged(vmtest.ConfigFile, "examples/several-sockets/holdfast.toml")
		for _, unit := range []string{"holdfast-web.socket", "holdfast-redis.socket"} {
			g.WritePackaged(vmtest.LocalUnits+unit, "examples/several-sockets/"+unit)
		}
		g.StartEcho(app, "tcp://127.0.0.1:6379")
		g.Run("systemctl", "start", "holdfast-web.socket", "holdfast-redis.socket")
		load := g.StartLoad(vmtest.Load{}, "tcp://127.0.0.1:80", "tcp://[::1]:80", redis, unix)
		assert.Equal(t, []string{"tcp 0.0.0.0:80", "tcp [::]:80"}, socketsOf(g, "web", "systemd"))
		assert.Equal(t, []string{"tcp 127.0.0.1:6380", "unix /run/holdfast-redis.sock"}, socketsOf(g, "redis", "systemd"))
		assertNoneLost(t, load.Stop())
	})
}

func TestWhoComesWhileTheServiceStartsIsServed(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp())
		g.DropIn("holdfast.service", "[Service]\nExecStartPre=/bin/sleep 2\n")
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.socket")
		began := time.Now()
		load := g.StartLoad(vmtest.Load{Streams: 20, Callers: 20}, web)
		assert.Greater(t, time.Since(began), 2*time.Second)
		r := load.Stop()
		assertNoneLost(t, r)
		assert.GreaterOrEqual(t, r.New.OK, 20)
		assert.Equal(t, 20, r.Streams.OK)
	})
}

func TestSocketsOfAUnitAndOwnOnesServeSideBySide(t *testing.T) {
	const own, path = "tcp://127.0.0.1:8081", "unix:///run/holdfast/own.sock"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp() + "[listener.own]\nupstream = 'app'\nlisten = ['" + own + "', '" + path + "']\n")
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.socket", "holdfast.service")
		load := g.StartLoad(vmtest.Load{}, web, own, path)
		assert.Equal(t, []string{"tcp [::]:8080"}, socketsOf(g, "web", "systemd"))
		assert.Equal(t, []string{"tcp 127.0.0.1:8081", "unix /run/holdfast/own.sock"}, socketsOf(g, "own", "bind"))
		assertNoneLost(t, load.Stop())
	})
}

func TestTheShippedConfigurationWorksWithAndWithoutItsSocketUnit(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install("")
		g.WritePackaged(vmtest.ConfigFile, "holdfast.toml")
		g.StartEcho(app)

		g.Run("systemctl", "start", "holdfast.service")
		load := g.StartLoad(vmtest.Load{}, web)
		assert.Equal(t, []string{"tcp [::]:8080"}, socketsOf(g, "web", "bind"))
		assertNoneLost(t, load.Stop())
		g.Run("systemctl", "stop", "holdfast.service")

		g.Run("systemctl", "start", "holdfast.socket")
		load = g.StartLoad(vmtest.Load{}, web)
		assert.Equal(t, []string{"tcp [::]:8080"}, socketsOf(g, "web", "systemd"))
		assertNoneLost(t, load.Stop())
	})
}

// socketsOf are the sockets of a listener that have an origin, sorted.
func socketsOf(g *vmtest.Guest, listener, origin string) []string {
	var sockets []string
	for _, s := range g.Status().Listeners.Sockets {
		if s.Origin == origin && slices.Contains(s.Names, listener) {
			sockets = append(sockets, s.Socket)
		}
	}
	slices.Sort(sockets)
	return sockets
}
