package vmtest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// The sockets that no change concerns, and that are under load meanwhile.
const (
	stays     = "tcp://127.0.0.1:8080"
	staysPath = "unix:///run/holdfast/stays.sock"
)

// staying is a configuration of those sockets and more.
func staying(drain time.Duration, list ...string) string {
	return listeners(drain, append([]string{"stays " + stays + " " + staysPath}, list...)...)
}

// withStaying are the lines of status of those sockets, whose streams began with
// generation 1, and of others.
func withStaying(generation int, others ...string) []string {
	generations := "[1]"
	if generation > 1 {
		generations = fmt.Sprintf("[1 %d]", generation)
	}
	return append(others, "tcp 127.0.0.1:8080 active bind "+generations, "unix /run/holdfast/stays.sock active bind "+generations)
}

func TestAReloadAddsAndRemovesAnyListener(t *testing.T) {
	const port, moved, v6, path = "tcp://127.0.0.1:8081", "tcp://127.0.0.1:8082", "tcp://[::1]:8081", "unix:///run/holdfast/web.sock"
	changes := []struct {
		what    string
		web     []string // addresses of the listener that changes
		refuses string
	}{
		{"a port is added", []string{port}, v6},
		{"IPv6 is added", []string{port, v6}, path},
		{"a Unix socket is added", []string{port, v6, path}, ""},
		{"a port is removed", []string{v6, path}, port},
		{"a Unix socket is removed", []string{v6}, path},
		{"the port is moved", []string{moved}, v6},
	}
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Minute))
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		load := g.StartLoad(vmtest.Load{}, stays, staysPath)
		assertSockets(t, g, 1, withStaying(1)...)
		for i, c := range changes {
			generation := i + 2
			reload(g, staying(time.Minute, "web "+strings.Join(c.web, " ")))
			if c.refuses != "" {
				assertRefused(t, g, c.refuses, c.what)
			}
			assert.Empty(t, g.Call(c.web...), c.what)
			assertSockets(t, g, generation, withStaying(generation, allActive("bind", generation, c.web...)...)...)
			assertStored(t, g, 2+len(c.web))
		}
		assertNoneLost(t, load.Stop())
		assert.Empty(t, g.Journal(service, "PRIORITY=3", "PRIORITY=4"))
	})
}

// The new socket is bound while the old one has the port.
func TestAReloadChangesTheBindAddressOfAPort(t *testing.T) {
	const every, one = "tcp://0.0.0.0:8081", "tcp://127.0.0.1:8081"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Minute, "web "+every))
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		load := g.StartLoad(vmtest.Load{}, stays, staysPath, one)
		reload(g, staying(time.Minute, "web "+one))
		assertRefused(t, g, "tcp://127.0.0.2:8081", "the other addresses are gone")
		assertSockets(t, g, 2, withStaying(2, "tcp 0.0.0.0:8081 draining bind [1]", "tcp 127.0.0.1:8081 active bind [2]")...)
		late := g.StartLoad(vmtest.Load{Callers: -1}, one)
		reload(g, staying(time.Minute, "web "+every))
		assert.Empty(t, g.Call("tcp://127.0.0.2:8081"))
		assertSockets(t, g, 3, withStaying(3, "tcp 0.0.0.0:8081 draining bind [1]", "tcp 127.0.0.1:8081 draining bind [2]", "tcp 0.0.0.0:8081 active bind [3]")...)
		assertStored(t, g, 3)
		assertNoneLost(t, late.Stop())
		assertNoneLost(t, load.Stop())
		assertSockets(t, g, 3, "tcp 127.0.0.1:8080 active bind [3]", "unix /run/holdfast/stays.sock active bind [3]", "tcp 0.0.0.0:8081 active bind [3]")
	})
}

func TestARemovedListenerRefusesAtOnceAndItsConnectionsGetTheirTime(t *testing.T) {
	const patient, hasty = "tcp://127.0.0.1:8081", "tcp://127.0.0.1:8082"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Minute, "patient "+patient, "hasty "+hasty))
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		load := g.StartLoad(vmtest.Load{}, stays, staysPath)
		live := g.StartLoad(vmtest.Load{Callers: -1}, patient)
		reload(g, staying(time.Hour, "hasty "+hasty))
		const refused = 7 // curl(1)
		assert.Equal(t, refused, g.Try("curl", "--max-time", "5", "http://127.0.0.1:8081").Code)
		assertSockets(t, g, 2, withStaying(2, "tcp 127.0.0.1:8081 draining bind [1]", "tcp 127.0.0.1:8082 active bind [2]")...)
		assertStored(t, g, 3)
		assertNoneLost(t, live.Stop())
		assertSockets(t, g, 2, withStaying(2, "tcp 127.0.0.1:8082 active bind [2]")...)

		live = g.StartLoad(vmtest.Load{Streams: 4, Callers: -1}, hasty)
		reload(g, staying(time.Second))
		assertSockets(t, g, 3, withStaying(3)...)
		r := live.Stop()
		assert.Equal(t, 4, r.Streams.Cut+r.Streams.Reset, "%+v", r.Streams)
		assert.Zero(t, r.Streams.Wrong)
		assertNoneLost(t, load.Stop())
	})
}

func TestAReloadSendsNewConnectionsToTheNewUpstream(t *testing.T) {
	const other = "tcp://127.0.0.1:9001"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Minute))
		g.StartEcho(app, other)
		g.Run("systemctl", "start", service)
		old := g.StartLoad(vmtest.Load{Streams: 3, Callers: -1}, stays)
		reload(g, strings.ReplaceAll(staying(time.Minute), app, other))
		late := g.StartLoad(vmtest.Load{Streams: 2, Callers: -1}, stays, staysPath)
		assert.Equal(t, 3, connectionsTo(g, "9000"))
		assert.Equal(t, 4, connectionsTo(g, "9001"))
		assertSockets(t, g, 2, "tcp 127.0.0.1:8080 active bind [1 2]", "unix /run/holdfast/stays.sock active bind [2]")
		assertNoneLost(t, old.Stop())
		assertNoneLost(t, late.Stop())
	})
}

// connectionsTo is how many connections there are to a port of this host.
func connectionsTo(g *vmtest.Guest, port string) int {
	return len(slices.Collect(strings.Lines(g.Run("ss", "-tnH", "state", "established", "dport", "=", ":"+port))))
}

// systemd 257 closes what it was told to drop some time later, and until then the
// address is in use.
func TestAListenerThatWasRemovedComesBackAtOnce(t *testing.T) {
	const rounds = 5
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		with := staying(time.Second, "web tcp://127.0.0.1:8081 tcp://0.0.0.0:8083 unix://@web unix:///run/holdfast/web.sock")
		g.Install(staying(time.Second))
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		load := g.StartLoad(vmtest.Load{}, stays, staysPath)
		g.Write("/root/with.toml", with)
		g.Write("/root/without.toml", staying(time.Second))
		for range rounds {
			g.Run("sh", "-ec", `for f in with without; do
				cp /root/$f.toml `+vmtest.ConfigFile+`
				systemctl reload `+service+`
			done`)
		}
		assertSockets(t, g, 2*rounds+1, withStaying(2*rounds+1)...)
		assertNoneLost(t, load.Stop())
	})
}
