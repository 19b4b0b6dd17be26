package upstream

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is how long a test waits for what has to happen.
const patience = 5 * time.Second

func tcp(host string, port uint16) config.Address {
	return config.Address{Network: "tcp", Host: host, Port: port}
}

func unixPath(path string) config.Address {
	return config.Address{Network: "unix", Path: path}
}

// hosts are n servers on different addresses that nobody connects to.
func hosts(n int) []config.Address {
	var servers []config.Address
	for i := range n {
		servers = append(servers, tcp(fmt.Sprintf("192.0.2.%d", i+1), 80))
	}
	return servers
}

var quiet = slog.New(slog.DiscardHandler)

func newPool(balance config.Balance, servers ...config.Address) *Pool {
	return New(config.Upstream{Name: "app", Servers: servers, Balance: balance}, quiet, nil)
}

func (p *Pool) endpoints() []*Endpoint { return p.current.Load().endpoints }

// run runs the pool until the test or the returned function ends it.
func run(t *testing.T, p *Pool) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { p.Run(ctx) })
	stop = func() {
		cancel()
		wg.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// listen is a server on loopback that accepts and hangs up.
func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l
}

func addressOf(l net.Listener) config.Address {
	if l.Addr().Network() == "unix" {
		return unixPath(l.Addr().String())
	}
	ap := l.Addr().(*net.TCPAddr).AddrPort()
	return tcp(ap.Addr().String(), ap.Port())
}

// logBook keeps what is logged, as "LEVEL message" lines.
type logBook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBook) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBook) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.buf.String(), text)
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }
