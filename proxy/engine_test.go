package proxy

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/leaktest"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

const patience = 20 * time.Second

func TestMain(m *testing.M) { leaktest.Main(m) }

// echoServer answers with what it gets, until the test ends.
func echoServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patience))
				_, _ = io.Copy(struct{ io.Writer }{c}, c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return l.Addr().String()
}

// handed is a listening socket as an engine is handed one.
func handed(t *testing.T, listener string, shared bool) (Socket, string, *atomic.Bool) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	require.NoError(t, err)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(fd, 128))
	bound, err := unix.Getsockname(fd)
	require.NoError(t, err)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*unix.SockaddrInet4).Port))
	closed := new(atomic.Bool)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	require.NoError(t, err)
	return Socket{ID: cookie, FD: fd, Label: "tcp " + address, Listener: listener, Origin: "bind", Shared: shared, Close: func() error {
		closed.Store(true)
		return unix.Close(fd)
	}}, address, closed
}

// proxying is the config of a listener "web" in front of one server, with more lines
// for [global].
func proxying(t *testing.T, server string, global ...string) *config.Config {
	t.Helper()
	text := "[global]\n" + strings.Join(global, "\n") + `
[listener.web]
upstream = "app"
[upstream.app]
servers = "tcp://` + server + `"
`
	cfg, err := config.Parse("test.toml", []byte(text), nil, config.Overrides{})
	require.NoError(t, err)
	return cfg
}

func started(t *testing.T, log *slog.Logger, cfg *config.Config, sockets ...Socket) *Engine {
	t.Helper()
	e, err := New(Options{Version: "test", Loops: 2, Descriptors: 20000, Log: log})
	require.NoError(t, err)
	apply(t, e, 1, cfg, sockets...)
	return e
}

// apply puts a generation into service that nothing speaks against.
func apply(t *testing.T, e *Engine, generation uint64, cfg *config.Config, sockets ...Socket) []status.Change {
	t.Helper()
	changes, err := e.Apply(t.Context(), Plan{Generation: generation, Config: cfg, Sockets: sockets})
	require.NoError(t, err)
	return changes
}

func alive(e *Engine) int64 {
	n, _ := e.Connections()
	return n
}

// atOnce leaves connections no time.
func atOnce() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, patience)
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func ping(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := c.Write([]byte("ping"))
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, 4))
	require.NoError(t, err)
}

func TestWhoAcceptsNobodyYetIsStarting(t *testing.T) {
	socket, address, _ := handed(t, "web", false)
	e := serving(t, proxying(t, echoServer(t)), socket)
	require.Equal(t, status.Running, e.Status().State)
	e.Hold()
	assert.Equal(t, status.Starting, e.Status().State)
	e.Unhold()
	assert.Equal(t, status.Running, e.Status().State)
	ping(t, dial(t, address))
}

func TestStatusTellsWhatIsServed(t *testing.T) {
	server := echoServer(t)
	socket, address, _ := handed(t, "web", false)
	cfg := proxying(t, server)
	e := started(t, slog.New(slog.DiscardHandler), cfg, socket)
	defer e.Stop(atOnce(), Ending{})
	first := dial(t, address)
	ping(t, first)
	second := dial(t, address)
	ping(t, second)
	require.NoError(t, second.Close())
	require.Eventually(t, func() bool { return alive(e) == 1 }, patience, time.Millisecond, "one is left")

	s := e.Status()
	assert.Equal(t, status.Running, s.State)
	assert.EqualValues(t, 1, s.Generation)
	assert.Equal(t, "connections", s.Keep)
	assert.Equal(t, []status.Socket{{
		Socket: "tcp " + address, Names: []string{"web"}, State: status.SocketActive, Generations: []uint64{1},
		Origin: "bind", Connections: 1, Accepted: 2,
	}}, s.Listeners.Sockets)
	assert.Equal(t, []status.Upstream{{Name: "app", Servers: []status.Server{{
		Address: "tcp://" + server, Healthy: true, Connections: 1,
	}}}}, s.Upstreams)
	assert.Equal(t, status.Connections{Active: 1, Accepted: 2, BytesIn: 8, BytesOut: 8}, s.Connections)
}

func TestStopServesWhoWaitsAndLetsConnectionsFinish(t *testing.T) {
	server := echoServer(t)
	socket, address, closed := handed(t, "web", false)
	cfg := proxying(t, server)
	e := started(t, slog.New(slog.DiscardHandler), cfg, socket)
	c := dial(t, address)
	ping(t, c)
	drain, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		e.Stop(drain, Ending{})
	}()
	require.Eventually(t, closed.Load, patience, time.Millisecond, "the socket is closed at once")
	_, err := net.Dial("tcp", address)
	require.ErrorIs(t, err, unix.ECONNREFUSED)
	ping(t, c) // goes on
	assert.Equal(t, status.Draining, e.Status().State)
	require.NoError(t, c.Close())
	select {
	case <-stopped:
	case <-time.After(patience):
		require.Fail(t, "not stopped when the last connection had left")
	}
}

func TestStopEndsWhatDoesNotEndInTime(t *testing.T) {
	server := echoServer(t)
	socket, address, _ := handed(t, "web", true)
	cfg := proxying(t, server)
	e := started(t, slog.New(slog.DiscardHandler), cfg, socket)
	c := dial(t, address)
	ping(t, c)
	drain, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond) // quiet by then
	defer cancel()
	e.Stop(drain, Ending{})
	got, err := io.ReadAll(c)
	require.NoError(t, err, "an idle one is ended in order")
	assert.Empty(t, got)
}

func TestAccessLogHasOneLineForAConnection(t *testing.T) {
	server := echoServer(t)
	socket, address, _ := handed(t, "web", false)
	cfg := proxying(t, server, "access_log = true")
	var out bytes.Buffer
	e := started(t, slog.New(slog.NewTextHandler(&out, nil)), cfg, socket)
	c := dial(t, address)
	ping(t, c)
	from := c.LocalAddr().String()
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return alive(e) == 0 }, patience, time.Millisecond)
	e.Stop(t.Context(), Ending{}) // also the writer of the log
	line := ""
	for l := range strings.Lines(out.String()) {
		if strings.Contains(l, "msg=connection") {
			line += l
		}
	}
	for _, part := range []string{
		"level=INFO", "listener=web", "client=" + from, "upstream=app", `server="tcp ` + server + `"`,
		"bytes_in=4", "bytes_out=4", "reason=closed",
	} {
		assert.Contains(t, line, part)
	}
	assert.Equal(t, 1, strings.Count(line, "\n"))
}

func TestStopInTimeAlthoughAQueueCannotBeServed(t *testing.T) {
	server := echoServer(t)
	socket, address, closed := handed(t, "web", false)
	cfg := proxying(t, server)
	e, err := New(Options{Version: "test", Loops: 2, Descriptors: 1, Log: slog.New(slog.DiscardHandler)}) // none to spare
	require.NoError(t, err)
	apply(t, e, 1, cfg, socket)
	c := dial(t, address)
	require.Eventually(t, func() bool { return e.Status().Listeners.Sockets[0].Paused }, patience, time.Millisecond)
	drain, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		e.Stop(drain, Ending{})
	}()
	select {
	case <-stopped:
	case <-time.After(patience):
		require.Fail(t, "Stop hangs")
	}
	assert.True(t, closed.Load())
	_, err = c.Read(make([]byte, 1))
	assert.ErrorIs(t, err, unix.ECONNRESET, "who waited is told")
}
