package relay

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// other is the rig's service in another generation.
func (r *rig) other(generation uint64, change func(*Service)) *Service {
	s := *r.service
	s.Generation = generation
	if change != nil {
		change(&s)
	}
	return &s
}

func TestAConnectionStaysWithTheServiceThatAcceptedIt(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{}, b.address)
	old := r.dial()
	require.NoError(t, ping(t, old))
	r.relay.Change(r.socket, r.other(2, func(s *Service) { s.Listener = "renamed" }))
	young := r.dial()
	require.NoError(t, ping(t, young))
	assert.Equal(t, []GenerationCount{{1, 1}, {2, 1}}, r.socket.Generations())

	require.NoError(t, old.Close())
	end := r.end()
	assert.Equal(t, "web", end.Listener)
	assert.EqualValues(t, 1, end.Generation)
	eventually(t, "the first generation is forgotten", func() bool { return len(r.socket.Generations()) == 1 })
	require.NoError(t, young.Close())
	assert.Equal(t, "renamed", r.end().Listener)
}

func TestGenerationsWithoutConnectionsAreNotRemembered(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{}, b.address)
	require.NoError(t, ping(t, r.dial()))
	for g := range uint64(1000) {
		r.relay.Change(r.socket, r.other(g+2, nil))
	}
	require.NoError(t, r.relay.Turn(t.Context()))
	assert.Equal(t, []GenerationCount{{1, 1}, {1001, 0}}, r.socket.Generations())
	assert.Len(t, r.socket.former, 1)
}

func TestWhoWaitsAtALimitIsServedWhenTheNextGenerationHasRoom(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{service: func(s *Service) { s.Limit = NewLimit(1) }}, b.address)
	require.NoError(t, ping(t, r.dial()))
	waiting := r.dial()
	eventually(t, "the limit holds it back", r.socket.Paused)

	r.relay.Change(r.socket, r.other(2, func(s *Service) { s.Limit = NewLimit(1) })) // another listener's
	require.NoError(t, ping(t, waiting))
	again := r.dial()
	eventually(t, "the other limit does, too", r.socket.Paused)
	r.relay.SetLimit(r.socket.current.Load().service.Limit, 0)
	require.NoError(t, ping(t, again))
}

func TestHangUpOfOneSocketLeavesTheOthers(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{}, b.address)
	stays := r.dial()
	require.NoError(t, ping(t, stays))
	fd, address := listenRaw(t, "tcp", 10)
	other := NewSocket(fd, 2, "other", r.service)
	r.relay.Serve(other)
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	require.NoError(t, ping(t, c))
	<-r.relay.Release(other, false)

	r.relay.HangUp(Selection{Socket: other})
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it is ended at once")
	require.NoError(t, ping(t, stays))
	assert.Zero(t, other.Active())
	closeFD(int32(fd))
}

func TestTurnWaitsForEveryLoop(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{loops: 2}, b.address)
	require.NoError(t, r.relay.Turn(t.Context()))
	held, hold := make(chan struct{}), make(chan struct{})
	require.True(t, r.relay.loops[1].post(func(*loop) {
		close(held)
		<-hold
	}))
	<-held
	turned := make(chan error, 1)
	go func() { turned <- r.relay.Turn(t.Context()) }()
	select {
	case err := <-turned:
		require.Fail(t, "one loop hangs", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(hold)
	require.NoError(t, <-turned)
}
