package integration

import (
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

func TestConnectionsOverTheLimitWaitInTheKernelsQueue(t *testing.T) {
	server := testbed.TCP(t)
	listen(t, server, echo)
	route := testbed.Route{
		Name: "limited", Listen: []string{testbed.TCP(t)}, Servers: []string{server},
		Listener: "max_connections = 3",
	}
	holdfast := testbed.StartHoldfast(t, testbed.Config{Routes: []testbed.Route{route}})

	var within, over []stream
	for range 3 {
		conn := dial(t, route.Listen[0])
		requireEcho(t, conn, "within\n")
		within = append(within, conn)
	}
	testbed.Eventually(t, patience, "the socket is paused", func() bool {
		return holdfast.Status(t).Listeners.Sockets[0].Paused
	})
	for range 3 {
		conn := dial(t, route.Listen[0])
		_, err := io.WriteString(conn, "over\n")
		require.NoError(t, err)
		over = append(over, conn)
	}
	requireSilence(t, over[0])
	for i := range within {
		require.NoError(t, within[i].Close())
		expect(t, over[i], "over\n")
	}
	s := holdfast.Status(t)
	assert.EqualValues(t, 6, s.Connections.Accepted)
	assert.Zero(t, s.Connections.Failed)
}

func TestIdleConnectionsEndAndBusyOnesStay(t *testing.T) {
	server := testbed.TCP(t)
	listen(t, server, echo)
	route := testbed.Route{
		Name: "idle", Listen: []string{testbed.TCP(t)}, Servers: []string{server},
		Listener: `idle_timeout = "2s"`,
	}
	testbed.StartHoldfast(t, testbed.Config{Routes: []testbed.Route{route}})
	busy, idle := dial(t, route.Listen[0]), dial(t, route.Listen[0])
	requireEcho(t, idle, "last words\n")
	start := time.Now()
	ended := make(chan struct{})
	go func() { // ends with the idle connection
		defer close(ended)
		_, _ = idle.Read(make([]byte, 1))
	}()
	for tick := time.Tick(100 * time.Millisecond); time.Since(start) < patience; <-tick {
		requireEcho(t, busy, "busy\n")
		select {
		case <-ended:
			assert.Greater(t, time.Since(start), 1900*time.Millisecond)
			assert.Less(t, time.Since(start), patience/2)
			requireEcho(t, busy, "still here\n")
			return
		default:
		}
	}
	t.Error("the idle connection has not ended")
}

// TestDescriptorsRunOut gives Holdfast far fewer descriptors than its clients
// need at once.
func TestDescriptorsRunOut(t *testing.T) {
	const clients = 200
	server := testbed.TCP(t)
	listen(t, server, echo)
	route := testbed.Route{Name: "crowded", Listen: []string{testbed.TCP(t)}, Servers: []string{server}}
	holdfast := testbed.StartHoldfastUnder(t, testbed.Config{Routes: []testbed.Route{route}},
		testbed.Command(t, "prlimit"), "--nofile=64:64")

	served, leave := make(chan struct{}, clients), make(chan struct{})
	var all sync.WaitGroup
	for range clients {
		conn := dial(t, route.Listen[0])
		all.Go(func() {
			if _, err := io.WriteString(conn, "me too\n"); err != nil {
				t.Error("a client could not send:", err)
			}
			_, err := io.ReadFull(conn, make([]byte, len("me too\n")))
			assert.NoError(t, err)
			served <- struct{}{}
			<-leave
			_ = conn.Close()
		})
	}
	testbed.Eventually(t, patience, "some are served", func() bool { return len(served) > 10 })
	assert.Less(t, len(served), clients/2, "descriptors run out")
	// Nobody leaves for a while: waiting for a descriptor must not cost CPU.
	const window = time.Second
	before := holdfast.CPU(t)
	<-time.After(window)
	assert.Less(t, holdfast.CPU(t)-before, window/10, "CPU while descriptors are out")

	close(leave)
	all.Wait()
	assert.Len(t, served, clients)
	assert.False(t, holdfast.Ended())
	s := holdfast.Status(t)
	assert.EqualValues(t, clients, s.Connections.Accepted)
	assert.Zero(t, s.Connections.Failed)
}

// requireSilence expects nothing from a connection for a moment: not a byte, not
// an end.
func requireSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
}
