package relay

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// turnTwice returns when each loop has seen what was ready before.
func (r *rig) turnTwice() {
	r.t.Helper()
	for range 2 {
		require.NoError(r.t, r.relay.Turn(r.t.Context()))
	}
}

func TestWhileARelayHoldsNobodyIsAccepted(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{}, b.address)
	before := r.dial()
	require.NoError(t, ping(t, before))
	r.relay.Hold()
	waiting := r.dial()
	_, err := waiting.Write([]byte("ping"))
	require.NoError(t, err)
	r.relay.Change(r.socket, r.service) // nothing else lets them in
	r.relay.SetLimit(r.service.Limit, 7)
	r.turnTwice()
	assert.EqualValues(t, 1, r.relay.Stats().Accepted)
	require.NoError(t, ping(t, before), "who was there goes on")

	r.relay.Unhold()
	require.NoError(t, waiting.SetReadDeadline(time.Now().Add(patience)))
	_, err = io.ReadFull(waiting, make([]byte, 4))
	require.NoError(t, err)
}

func TestTheQueueOfASocketThatGoesIsServedAfterAHold(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{}, b.address)
	r.relay.Hold()
	waiting := r.dial()
	released := r.relay.Release(r.socket, true)
	r.turnTwice()
	select {
	case <-released:
		require.Fail(t, "its queue is not served yet")
	default:
	}
	r.relay.Unhold()
	require.NoError(t, ping(t, waiting))
	<-released
}

// Who waits in the queue is not accepted before those count who were there.
func TestTheNextRelayCountsWhomItGoesOnWithBeforeItAccepts(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 100)
	const most = 3
	r := newRig(t, setup{vault: s, service: func(s *Service) { s.Limit = NewLimit(most) }}, b.address)
	var inside []net.Conn
	for range most {
		c := r.dial()
		require.NoError(t, ping(t, c))
		inside = append(inside, c)
	}
	<-r.relay.Release(r.socket, false)
	r.relay.LetGo()
	left := s.found()
	former := r.relay
	waiting := r.dial()
	_, err := waiting.Write([]byte("ping"))
	require.NoError(t, err)

	next, err := New(Options{Loops: 2, Descriptors: 20000, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	next.Attach([]Vault{s, s}, s.common, s.left())
	next.Hold()
	socket := NewSocket(r.fd, 1, r.socket.label, r.service)
	next.Serve(socket)
	require.Equal(t, Restored{Connections: most}, next.Restore(left, s.uses(Use{socket, r.service})))
	next.Unhold()
	former.Close()
	r.relay, r.socket = next, socket
	eventually(t, "accepting pauses", socket.Paused)
	assert.EqualValues(t, most, socket.Active())
	require.NoError(t, inside[0].Close())
	_, err = io.ReadFull(waiting, make([]byte, 4))
	require.NoError(t, err, "served when one has left")
}
