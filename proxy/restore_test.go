package proxy

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/proxyproto"
	"github.com/holdfast-proxy/holdfast/proxy/relay"
)

// drawer is a vault with room for notes, one slab and one connection, which the relay before
// has let go before it is found.
type drawer struct {
	notebook
	memory, slab []byte
	fds          [2]int32
}

func (d *drawer) Take() (uint32, []byte, bool) {
	if d.memory != nil {
		return 0, nil, false
	}
	d.memory = make([]byte, 240)
	return 0, d.memory, true
}

func (d *drawer) Keep(_ uint32, a, b int32) bool {
	for i, fd := range []int32{a, b} {
		raw, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return false
		}
		d.fds[i] = int32(raw)
	}
	return true
}

func (d *drawer) Slab() ([]byte, uint32, error) {
	d.slab = make([]byte, 1<<20)
	return d.slab, 0, nil
}

func (d *drawer) AdoptSlab(uint32) ([]byte, bool) { return d.slab, d.slab != nil }

// attach gives an engine of one loop the drawer, with what is in it.
func (d *drawer) attach(e *Engine) {
	e.Attach([]relay.Vault{d}, make([]byte, relay.TotalsSize), d.left())
}

// found is the connection as the next process finds it.
func (d *drawer) found() []relay.Kept { return []relay.Kept{{Memory: d.memory, FDs: d.fds}} }

// slowServer is a server that refuses until accept is called, which waits for who comes then.
func slowServer(t *testing.T) (address string, accept func() net.Conn) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	require.NoError(t, err)
	file := os.NewFile(uintptr(fd), "server")
	t.Cleanup(func() { _ = file.Close() })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*unix.SockaddrInet4).Port)), func() net.Conn {
		require.NoError(t, unix.Listen(fd, 16))
		l, err := net.FileListener(file)
		require.NoError(t, err)
		defer l.Close()
		require.NoError(t, l.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
		c, err := l.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		return c
	}
}

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test.toml", []byte(text), nil, config.Overrides{})
	require.NoError(t, err)
	return cfg
}

// withDrawer starts an engine of one loop that keeps its connection in a drawer.
func withDrawer(t *testing.T, d *drawer, generation uint64, cfg *config.Config, sockets ...Socket) *Engine {
	t.Helper()
	e, err := New(Options{Loops: 1, Descriptors: 20000, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	require.NoError(t, err)
	d.attach(e)
	apply(t, e, generation, cfg, sockets...)
	return e
}

// succeeded has another engine, in the service of a later generation, go on with the connection
// of a first one, which has ended then.
func succeeded(t *testing.T, d *drawer, first *Engine, cfg *config.Config, sockets ...Socket) {
	t.Helper()
	first.Pause()
	first.LetGo()
	require.NotNil(t, d.memory, "it is kept")
	next := withDrawer(t, d, 2, cfg, sockets...)
	t.Cleanup(func() { next.Stop(atOnce(), Ending{}) })
	require.Equal(t, relay.Restored{Connections: 1}, next.Restore(d.found()))
	first.Stop(atOnce(), Ending{})
}

// A client waits for a server that is down while its listener gets another upstream, or goes.
func TestWhoWaitsForAServerGetsItAsItsUpstreamSays(t *testing.T) {
	const before = `
[listener.web]
upstream = "app"
`
	app := func(address, sends string) string {
		return "[upstream.app]\nconnect_retry = \"20s\"\nsend_proxy = \"" + sends + "\"\nservers = \"tcp://" + address + "\"\n"
	}
	for name, tt := range map[string]struct {
		sends string
		after string
	}{
		"with a header, and the other one's has none": {sends: "v2", after: `
[listener.web]
upstream = "other"
[upstream.other]
servers = "tcp://127.0.0.1:1"
`},
		"with none, and the other one's has one": {sends: "", after: `
[listener.web]
upstream = "other"
[upstream.other]
send_proxy = "v2"
servers = "tcp://127.0.0.1:1"
`},
		"with a header, and the listener is gone": {sends: "v2", after: `
[listener.else]
upstream = "app"
`},
		"with none, and the listener is gone": {sends: "", after: `
[listener.else]
upstream = "app"
`},
	} {
		t.Run(name, func(t *testing.T) {
			server, accept := slowServer(t)
			socket, address, _ := handed(t, "web", true)
			d := new(drawer)
			first := withDrawer(t, d, 1, parsed(t, before+app(server, tt.sends)), socket)
			c := dial(t, address)
			_, err := c.Write([]byte("ping"))
			require.NoError(t, err)
			require.Eventually(t, func() bool { return alive(first) == 1 }, patience, time.Millisecond)
			later := parsed(t, tt.after+app(server, tt.sends))
			socket, _, _ = handed(t, later.Listeners[0].Name, true)
			succeeded(t, d, first, later, socket)
			s := accept()
			require.NoError(t, c.(*net.TCPConn).CloseWrite())
			got, err := io.ReadAll(s)
			require.NoError(t, err)
			rest, whole := bytes.CutSuffix(got, []byte("ping"))
			require.True(t, whole, "%q", got)
			if tt.sends == "" {
				assert.Empty(t, rest)
				return
			}
			h, size, err := proxyproto.Parse(rest)
			require.NoError(t, err)
			assert.Len(t, rest, size)
			assert.Equal(t, c.LocalAddr().String(), h.Source.String())
		})
	}
}

func TestTheIdleTimeoutOfAConnectionIsThatOfItsGeneration(t *testing.T) {
	text := "[upstream.app]\nservers = \"tcp://" + echoServer(t) + "\"\n"
	socket, address, _ := handed(t, "web", true)
	d := new(drawer)
	first := withDrawer(t, d, 1, parsed(t, "[listener.web]\nupstream = \"app\"\nidle_timeout = \"2s\"\n"+text), socket)
	c := dial(t, address)
	ping(t, c)

	later, _, _ := handed(t, "else", true)
	succeeded(t, d, first, parsed(t, "[listener.else]\nupstream = \"app\"\n"+text), later)
	ping(t, c)
	got, err := io.ReadAll(c)
	require.NoError(t, err, "ended in order, before the test loses its patience")
	assert.Empty(t, got)
}
