package handover

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func dialAddr(a sock.Addr) (net.Conn, error) {
	if a.Network == "unix" {
		return net.Dial("unix", a.Path)
	}
	return net.Dial("tcp", a.AddrPort.String())
}

// load is clients that come and come, one after the other on each address.
type load struct {
	clients sync.WaitGroup
	stop    chan struct{}
	served  atomic.Int64

	mu       sync.Mutex
	failures []error
}

func startLoad(t *testing.T, sockets []*sock.Listener) *load {
	t.Helper()
	var addrs []sock.Addr
	for _, s := range sockets {
		addrs = append(addrs, s.Addr())
	}
	l := startWaiting(t, addrs)
	require.Eventually(t, func() bool { return l.served.Load() > 0 }, patience, tick)
	return l
}

// startWaiting is load on sockets on which nobody accepts yet.
func startWaiting(t *testing.T, addrs []sock.Addr) *load {
	t.Helper()
	l := &load{stop: make(chan struct{})}
	for _, a := range addrs {
		l.clients.Go(func() { l.run(a) })
	}
	t.Cleanup(l.end)
	return l
}

func (l *load) run(a sock.Addr) {
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		if _, err := greeting(a); err != nil {
			l.mu.Lock()
			l.failures = append(l.failures, err)
			l.mu.Unlock()
		}
		l.served.Add(1)
	}
}

func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.clients.Wait()
}

// requireNoneLost ends the load after some more clients.
func (l *load) requireNoneLost(t *testing.T) {
	t.Helper()
	now := l.served.Load()
	assert.Eventually(t, func() bool { return l.served.Load() > now+20 }, patience, tick)
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(t, l.failures)
}
