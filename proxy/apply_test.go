package proxy

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// kinds are what became of each socket.
func kinds(changes []status.Change) []status.ChangeKind {
	var list []status.ChangeKind
	for _, c := range changes {
		list = append(list, c.Change)
	}
	return list
}

// serving is an engine that serves one socket, without a log.
func serving(t *testing.T, cfg *config.Config, sockets ...Socket) *Engine {
	t.Helper()
	e := started(t, slog.New(slog.DiscardHandler), cfg, sockets...)
	t.Cleanup(func() { e.Stop(atOnce(), Ending{}) })
	return e
}

func TestConnectionsKeepTheGenerationThatAcceptedThem(t *testing.T) {
	first, second := echoServer(t), echoServer(t)
	socket, address, _ := handed(t, "web", false)
	e := serving(t, proxying(t, first), socket)
	old := dial(t, address)
	ping(t, old)

	changes := apply(t, e, 2, proxying(t, second), socket)
	assert.Equal(t, []status.ChangeKind{status.Kept}, kinds(changes))
	young := dial(t, address)
	ping(t, young)
	ping(t, old)
	s := e.Status()
	assert.EqualValues(t, 2, s.Generation)
	assert.Equal(t, []uint64{1, 2}, s.Listeners.Sockets[0].Generations)
	assert.EqualValues(t, 2, s.Listeners.Sockets[0].Connections)
	assert.Equal(t, []status.Server{{Address: "tcp://" + second, Healthy: true, Connections: 1}}, s.Upstreams[0].Servers)

	require.NoError(t, old.Close())
	require.Eventually(t, func() bool { return len(e.Status().Listeners.Sockets[0].Generations) == 1 }, patience, time.Millisecond, "the first generation is gone")
}

func TestAnAddedListenerServesAndARemovedOneRefuses(t *testing.T) {
	server := echoServer(t)
	cfg := proxying(t, server, `drain_timeout = "never"`)
	stays, staying, _ := handed(t, "web", false)
	goes, going, closed := handed(t, "web", false)
	e := serving(t, cfg, stays, goes)
	c := dial(t, going)
	ping(t, c)

	comes, coming, _ := handed(t, "web", false)
	comes.Bound = true
	changes := apply(t, e, 2, cfg, stays, comes)
	assert.Equal(t, []status.ChangeKind{status.Kept, status.Bound, status.Drains}, kinds(changes))
	ping(t, dial(t, staying))
	short := dial(t, coming)
	ping(t, short)
	require.NoError(t, short.Close())
	assert.True(t, closed.Load(), "as soon as the reload is done")
	_, err := net.Dial("tcp", going)
	require.ErrorIs(t, err, unix.ECONNREFUSED)
	ping(t, c)
	s := e.Status().Listeners.Sockets
	require.Len(t, s, 3)
	assert.Equal(t, status.SocketDraining, s[2].State)
	assert.Equal(t, []uint64{1}, s[2].Generations)
	assert.EqualValues(t, 1, s[2].Connections)

	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return len(e.Status().Listeners.Sockets) == 2 }, patience, time.Millisecond, "forgotten with its last connection")
	changes = apply(t, e, 3, cfg, stays)
	assert.Equal(t, []status.ChangeKind{status.Kept, status.Closed}, kinds(changes))
}

func TestWhoIsInTheQueueOfARemovedListenerIsServed(t *testing.T) {
	for name, shared := range map[string]bool{"our own": false, "a socket unit's": true} {
		t.Run(name, func(t *testing.T) {
			cfg := proxying(t, echoServer(t))
			cfg.Listeners[0].MaxConnections = 1
			socket, address, closed := handed(t, "web", shared)
			retired := false
			socket.Retire = func() { retired = true }
			e := serving(t, cfg, socket)
			ping(t, dial(t, address))
			var queued []net.Conn
			for range 5 {
				queued = append(queued, dial(t, address))
			}
			apply(t, e, 2, cfg)
			for _, c := range queued {
				ping(t, c)
			}
			require.True(t, closed.Load())
			assert.Equal(t, !shared, retired, "somebody else listens on a shared one")
		})
	}
}

func TestConnectionsOfARemovedListenerHaveDrainTimeout(t *testing.T) {
	server := echoServer(t)
	socket, address, _ := handed(t, "web", false)
	e := serving(t, proxying(t, server), socket)
	c := dial(t, address)
	ping(t, c)
	apply(t, e, 2, proxying(t, server, `drain_timeout = "1500ms"`))
	got, err := io.ReadAll(c)
	require.NoError(t, err, "it was idle: ended in order")
	assert.Empty(t, got)
	require.Eventually(t, func() bool { return len(e.Status().Listeners.Sockets) == 0 }, patience, time.Millisecond)
}

func TestAListenerThatComesBackInTimeHasLostNobody(t *testing.T) {
	server := echoServer(t)
	cfg := proxying(t, server, `drain_timeout = "1s"`)
	socket, address, _ := handed(t, "web", false)
	e := serving(t, cfg, socket)
	c := dial(t, address)
	ping(t, c)
	apply(t, e, 2, cfg)
	again, _, _ := handed(t, "web", false)
	again.Label = socket.Label
	apply(t, e, 3, cfg, again)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(1500*time.Millisecond)))
	_, err := c.Read(make([]byte, 1))
	require.ErrorContains(t, err, "i/o timeout", "nobody ends it")
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	ping(t, c)
}

func TestAListenerThatGoesOnceMoreEndsAlsoThoseItHadBefore(t *testing.T) {
	server := echoServer(t)
	socket, address, _ := handed(t, "web", false)
	e := serving(t, proxying(t, server, `drain_timeout = "never"`), socket)
	c := dial(t, address)
	ping(t, c)
	apply(t, e, 2, proxying(t, server, `drain_timeout = "never"`))
	again, _, _ := handed(t, "web", false)
	again.Label = socket.Label
	apply(t, e, 3, proxying(t, server), again)
	ping(t, c)
	apply(t, e, 4, proxying(t, server, `drain_timeout = "0"`))
	_, err := c.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it is ended at once")
}

func TestALimitHoldsOverGenerations(t *testing.T) {
	server := echoServer(t)
	limited := func(most int) *config.Config {
		cfg := proxying(t, server)
		cfg.Listeners[0].MaxConnections = most
		return cfg
	}
	socket, address, _ := handed(t, "web", false)
	e := serving(t, limited(1), socket)
	first := dial(t, address)
	ping(t, first)
	waiting := dial(t, address)
	require.Eventually(t, func() bool { return e.Status().Listeners.Sockets[0].Paused }, patience, time.Millisecond)

	apply(t, e, 2, limited(1), socket)
	assert.EqualValues(t, 1, alive(e), "the connection of the first generation counts")
	apply(t, e, 3, limited(2), socket)
	ping(t, waiting) // there is room now
	apply(t, e, 4, limited(1), socket)
	ping(t, first) // those that are there stay
	ping(t, waiting)
}

func TestAnUnchangedUpstreamKeepsItsPool(t *testing.T) {
	server := echoServer(t)
	socket, _, _ := handed(t, "web", false)
	e := serving(t, proxying(t, server), socket)
	before := e.pools[0]
	apply(t, e, 2, proxying(t, server), socket)
	assert.Same(t, before, e.pools[0])
}

func TestAnApplyThatIsCanceledChangesNothing(t *testing.T) {
	server := echoServer(t)
	socket, address, _ := handed(t, "web", false)
	e := serving(t, proxying(t, server), socket)
	e.Refused("an older reason")
	other, _, closed := handed(t, "web", false)
	defer func() { _ = unix.Close(other.FD) }()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Apply(canceled, Plan{Generation: 2, Config: proxying(t, "localhost:1"), Sockets: []Socket{other}})
	require.ErrorIs(t, err, context.Canceled)
	ping(t, dial(t, address))
	assert.False(t, closed.Load())
	s := e.Status()
	assert.EqualValues(t, 1, s.Generation)
	assert.Equal(t, "an older reason", s.Listeners.LastError)
	assert.Len(t, s.Listeners.Sockets, 1)
	apply(t, e, 2, proxying(t, server), socket)
	assert.Empty(t, e.Status().Listeners.LastError)
}

func TestADatagramSocketIsHeldAndCounted(t *testing.T) {
	server := echoServer(t)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	socket := Socket{ID: 1, FD: fd, Label: "udp 127.0.0.1:53", Listener: "web", Origin: "systemd", Datagram: true, Close: func() error { return unix.Close(fd) }}
	e := serving(t, proxying(t, server), socket)
	assert.Equal(t, []status.Socket{{
		Socket: "udp 127.0.0.1:53", Names: []string{"web"}, State: status.SocketActive, Generations: []uint64{1}, Origin: "systemd",
	}}, e.Status().Listeners.Sockets)
	changes := apply(t, e, 2, proxying(t, server))
	assert.Equal(t, []status.ChangeKind{status.Closed}, kinds(changes))
}

// pingOnce is one client from its beginning to its end.
func pingOnce(address string) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("ping")); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 4))
	return err
}

// Clients come all the time; each generation has another server, and every second one
// another listener beside.
func TestReloadsUnderLoadLoseNobody(t *testing.T) {
	servers := []string{echoServer(t), echoServer(t)}
	socket, address, _ := handed(t, "web", false)
	e := serving(t, proxying(t, servers[0]), socket)
	ctx, stop := context.WithCancel(t.Context())
	tried := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				assert.NoError(t, pingOnce(address))
				select {
				case tried <- struct{}{}:
				default:
				}
			}
		})
	}
	for generation := uint64(2); generation <= 40; generation++ {
		<-tried
		sockets := []Socket{socket}
		if generation%2 == 0 {
			beside, _, _ := handed(t, "web", false)
			sockets = append(sockets, beside)
		}
		apply(t, e, generation, proxying(t, servers[generation%2]), sockets...)
	}
	stop()
	clients.Wait()
}
