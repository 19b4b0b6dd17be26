package proxy

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// Who waits at a socket that nobody wants any more is served; the listener that is in
// service stays what it is.
func TestTheQueueOfALeftoverIsServedAndNothingElseChanges(t *testing.T) {
	server := echoServer(t)
	socket, address, _ := handed(t, "web", false)
	cfg := proxying(t, server)
	e := started(t, slog.New(slog.DiscardHandler), cfg, socket)
	defer e.Stop(atOnce(), Ending{})
	left, leftAddress, closed := handed(t, "web", false)
	waiting := dial(t, leftAddress)

	former := *cfg
	former.Listeners = append(former.Listeners[:0:0], cfg.Listeners...)
	former.Listeners[0].MaxConnections = 1
	require.NoError(t, e.Finish(t.Context(), Plan{Generation: 7, Config: &former, Sockets: []Socket{left}}))
	ping(t, waiting)
	require.Eventually(t, closed.Load, patience, time.Millisecond)
	for range 3 {
		ping(t, dial(t, address)) // beyond the former limit
	}
	s := e.Status()
	assert.EqualValues(t, 1, s.Generation)
	states := map[status.SocketState]int{}
	for _, l := range s.Listeners.Sockets {
		states[l.State]++
	}
	assert.Equal(t, map[status.SocketState]int{status.SocketActive: 1, status.SocketDraining: 1}, states)
}
