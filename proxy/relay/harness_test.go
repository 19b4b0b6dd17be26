package relay

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/upstream"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// rig is a relay with one listening socket in front of some servers.
type rig struct {
	t       *testing.T
	relay   *Relay
	socket  *Socket
	service *Service
	network string
	address string // where clients connect
	fd      int
	ends    chan End
}

// setup changes what a rig is made of.
type setup struct {
	network string // of the listening socket; "" = tcp
	backlog int
	loops   int
	spare   int // descriptors above those open now; 0 = plenty
	pool    func(*config.Upstream)
	service func(*Service)
	vault   *shelf
}

func newRig(t *testing.T, s setup, servers ...config.Address) *rig {
	t.Helper()
	if s.network == "" {
		s.network = "tcp"
	}
	if s.loops == 0 {
		s.loops = 2
	}
	if s.backlog == 0 {
		s.backlog = 1024
	}
	cfg := config.Upstream{
		Name: "app", Servers: servers, Balance: config.RoundRobin,
		ConnectTimeout: 5 * time.Second,
	}
	if s.pool != nil {
		s.pool(&cfg)
	}
	pool := upstream.New(cfg, slog.New(slog.DiscardHandler), nil)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		pool.Run(ctx)
	}()
	service := &Service{
		Listener: "web", Generation: 1, Pool: pool, Limit: NewLimit(0),
		ConnectTimeout: cfg.ConnectTimeout, ConnectRetry: cfg.ConnectRetry,
	}
	if s.service != nil {
		s.service(service)
	}
	most := 20000
	if s.spare > 0 {
		most = openDescriptors(t) + s.spare
	}
	r := &rig{t: t, network: s.network, service: service, ends: make(chan End, 10000)}
	r.fd, r.address = listenRaw(t, s.network, s.backlog)
	o := Options{Loops: s.loops, Descriptors: most, Log: slog.New(slog.DiscardHandler), OnEnd: func(e End) { r.ends <- e }}
	relay, err := New(o)
	require.NoError(t, err)
	relay.SetReporting(true)
	if s.vault != nil {
		relay.Attach(slices.Repeat([]Vault{s.vault}, s.loops), s.vault.common, nil)
	}
	r.relay = relay
	r.socket = NewSocket(r.fd, 1, s.network+" "+r.address, service)
	relay.Serve(r.socket)
	t.Cleanup(func() {
		r.relay.Close()
		_ = unix.Close(r.fd)
		cancel()
		<-stopped
	})
	return r
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(open)
}

// listenRaw makes a listening socket as the relay gets it: a bare descriptor.
func listenRaw(t *testing.T, network string, backlog int) (int, string) {
	t.Helper()
	family, sa := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	path := ""
	if network == "unix" {
		path = filepath.Join(t.TempDir(), "s")
		family, sa = unix.AF_UNIX, &unix.SockaddrUnix{Name: path}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Bind(fd, sa))
	require.NoError(t, unix.Listen(fd, backlog))
	if path != "" {
		return fd, path
	}
	bound, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return fd, net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*unix.SockaddrInet4).Port))
}

func (r *rig) dial() net.Conn {
	r.t.Helper()
	c, err := net.DialTimeout(r.network, r.address, patience)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = c.Close() })
	require.NoError(r.t, c.SetDeadline(time.Now().Add(patience)))
	return c
}

// clients connects so many, and waits until each is served.
func (r *rig) clients(n int) {
	r.t.Helper()
	for range n {
		require.NoError(r.t, ping(r.t, r.dial()))
	}
}

// end waits for a connection to be over.
func (r *rig) end() End {
	r.t.Helper()
	select {
	case e := <-r.ends:
		return e
	case <-time.After(patience):
		require.Fail(r.t, "no connection ended")
		return End{}
	}
}

// eachLoop looks at every loop from its own goroutine.
func (r *rig) eachLoop(look func(*loop)) {
	r.t.Helper()
	for _, l := range r.relay.loops {
		done := make(chan struct{})
		require.True(r.t, l.post(func(l *loop) {
			defer close(done)
			look(l)
		}))
		<-done
	}
}

func (r *rig) eachPair(look func(*pair)) {
	r.t.Helper()
	r.eachLoop(func(l *loop) { l.pairs.each(look) })
}

// eventually waits for what is named to hold.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 5*time.Millisecond, what)
}

// backend is a real server; every connection is given to serve, and closed after.
type backend struct {
	listener net.Listener
	address  config.Address
}

func newBackend(t *testing.T, network string, serve func(net.Conn)) *backend {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "b")
	}
	return newBackendAt(t, network, address, serve)
}

func newBackendAt(t *testing.T, network, address string, serve func(net.Conn)) *backend {
	t.Helper()
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	b := &backend{listener: l, address: addressOf(l.Addr())}
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
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return b
}

func addressOf(a net.Addr) config.Address {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return config.Address{Network: "tcp", Host: tcp.IP.String(), Port: uint16(tcp.Port)}
	}
	return config.Address{Network: "unix", Path: a.String()}
}

func echo(c net.Conn) {
	_, _ = io.Copy(struct{ io.Writer }{c}, c) // not by splice, which leaves pipes in a pool
	_ = c.(interface{ CloseWrite() error }).CloseWrite()
}

// flood writes until nobody reads.
func flood(c net.Conn) {
	for {
		if _, err := c.Write(make([]byte, 64<<10)); err != nil {
			return
		}
	}
}

// awaitStall returns when no client takes a byte any more, and each is owed some.
func (r *rig) awaitStall() {
	r.t.Helper()
	eventually(r.t, "every connection stalls", func() bool {
		before, pairs, stalled := r.relay.Stats().BytesOut, 0, 0
		r.eachPair(func(p *pair) {
			pairs++
			if p.flow[server].owes() && !p.side[client].writable {
				stalled++
			}
		})
		time.Sleep(100 * time.Millisecond) // a rate is looked at, too
		return pairs > 0 && stalled == pairs && r.relay.Stats().BytesOut == before
	})
}

func closeWrite(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.(interface{ CloseWrite() error }).CloseWrite())
}

// abort ends a TCP connection with a RST.
func abort(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// pairings are the transports of listener and server.
var pairings = [][2]string{{"tcp", "tcp"}, {"tcp", "unix"}, {"unix", "tcp"}, {"unix", "unix"}}
