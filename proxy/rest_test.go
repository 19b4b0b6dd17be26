package proxy

import (
	"log/slog"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/relay"
)

func TestRestOnlyWithoutConnectionsAndLeavesTheQueue(t *testing.T) {
	server := echoServer(t)
	socket, address, closed := handed(t, "web", true)
	cfg := proxying(t, server)
	e := started(t, slog.New(slog.DiscardHandler), cfg, socket)
	c := dial(t, address)
	ping(t, c)
	assert.False(t, e.Rest(), "one is alive")
	ping(t, dial(t, address)) // still served
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return alive(e) == 1 }, patience, time.Millisecond)
	e.relay.HangUp(relay.Selection{})
	require.True(t, e.Rest())
	late := dial(t, address)
	e.Stop(t.Context(), Ending{})
	assert.True(t, closed.Load())
	_ = late.Close()
	_, accepted := e.Connections()
	assert.EqualValues(t, 2, accepted, "the late one was left to the next start")
}

func TestAClientThatComesBetweenTheLookAndRestIsServedOn(t *testing.T) {
	socket, address, _ := handed(t, "web", true)
	e := started(t, slog.New(slog.DiscardHandler), proxying(t, echoServer(t)), socket)
	defer e.Stop(atOnce(), Ending{})
	require.Zero(t, alive(e), "the look")
	c := dial(t, address)
	ping(t, c)
	assert.False(t, e.Rest())
	ping(t, c)
	ping(t, dial(t, address))
}

// Whether such a client is accepted, or in the queue, or comes later, is chance.
func TestWhoComesWhileRestLooksIsServedOnOrByTheNextStart(t *testing.T) {
	const rounds = 200
	socket, address, _ := handed(t, "web", true)
	defer func() { _ = socket.Close() }() // as systemd has it all the time
	cfg := proxying(t, echoServer(t))
	start := func() *Engine {
		fd, err := unix.FcntlInt(uintptr(socket.FD), unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		own := socket
		own.FD, own.Close = fd, func() error { return unix.Close(fd) }
		return started(t, slog.New(slog.DiscardHandler), cfg, own)
	}
	rested := 0
	for range rounds {
		e := start()
		rests, at := make(chan bool), time.Now().Add(time.Millisecond)
		go func() {
			spinUntil(at)
			rests <- e.Rest()
		}()
		spinUntil(at.Add(rand.N(200*time.Microsecond) - 100*time.Microsecond))
		c := dial(t, address)
		if <-rests {
			rested++
			e.Stop(atOnce(), Ending{})
			e = start()
		}
		ping(t, c)
		require.NoError(t, c.Close())
		e.Stop(atOnce(), Ending{})
	}
	t.Logf("%d of %d could rest", rested, rounds)
	assert.NotZero(t, rested)
	assert.Less(t, rested, rounds)
}

// spinUntil is exact to microseconds, as time.Sleep is not.
func spinUntil(at time.Time) {
	for time.Now().Before(at) {
		runtime.Gosched()
	}
}
