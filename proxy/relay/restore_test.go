package relay

import (
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// successor is a relay that goes on with what the one of a rig has let go.
func (r *rig) successor(s *shelf) Restored {
	r.t.Helper()
	<-r.relay.Release(r.socket, false)
	r.relay.LetGo()
	left := s.found() // before the next one keeps its own
	former := r.relay
	next, err := New(Options{Loops: 2, Descriptors: 20000, Log: slog.New(slog.NewTextHandler(r.t.Output(), nil)), OnEnd: func(e End) { r.ends <- e }})
	require.NoError(r.t, err)
	next.SetReporting(true)
	next.Attach([]Vault{s, s}, s.common, s.left())
	socket := NewSocket(r.fd, 1, r.socket.label, r.service)
	next.Serve(socket)
	done := next.Restore(left, s.uses(Use{socket, r.service}))
	former.Close()
	r.relay, r.socket = next, socket
	return done
}

func TestStreamsGoOnInAnotherRelayByteForByte(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair[0]+" to "+pair[1], func(t *testing.T) {
			b := newBackend(t, pair[1], echo)
			s := newShelf(t, 1000)
			r := newRig(t, setup{network: pair[0], vault: s}, b.address)
			var all sync.WaitGroup
			over := make(chan struct{})
			for i := range 16 {
				c := r.dial()
				all.Go(func() { exchange(t, c, 4<<20, uint64(i)) })
			}
			go func() {
				all.Wait()
				close(over)
			}()
			rounds := 0
			for {
				done := r.successor(s)
				rounds++
				assert.Zero(t, done.Lost)
				select {
				case <-over:
					t.Log("rounds", rounds, "left", done)
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
}

// A service that is restarted each minute must not keep who is gone for ever.
func TestAnIdleTimeoutGoesOn(t *testing.T) {
	const idle = time.Hour
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 100)
	r := newRig(t, setup{vault: s, service: func(s *Service) { s.IdleTimeout = idle }}, b.address)
	quiet, busy := r.dial(), r.dial()
	require.NoError(t, ping(t, quiet))
	require.NoError(t, ping(t, busy))
	age := func(by time.Duration) { r.eachPair(func(p *pair) { p.active -= int64(by) }) }
	age(idle / 2)
	require.Equal(t, Restored{Connections: 2}, r.successor(s))
	require.NoError(t, ping(t, busy))
	age(idle / 2)
	require.Equal(t, Restored{Connections: 2}, r.successor(s))
	got, err := io.ReadAll(quiet)
	require.NoError(t, err, "ended in order")
	assert.Empty(t, got)
	assert.Equal(t, Idle, r.end().Reason)
	require.NoError(t, ping(t, busy))
}

// As if a process had been killed between two looks.
func TestWhatHasMovedSinceItWasNotedWasNotIdle(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 100)
	r := newRig(t, setup{vault: s, service: func(s *Service) { s.IdleTimeout = time.Hour }}, b.address)
	c := r.dial()
	require.NoError(t, ping(t, c))
	r.letGo()
	for number := range s.kept {
		left := slotIn(s.at(number))
		left.idle, left.moved = int64(time.Minute), left.moved-1
	}
	require.Equal(t, Restored{Connections: 1}, r.successor(s))
	r.eachPair(func(p *pair) { assert.Less(t, r.relay.clock()-p.active, int64(time.Minute)) })
}

func TestASilentConnectionGoesOn(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 100)
	r := newRig(t, setup{vault: s}, b.address)
	c := r.dial()
	say := func(text string) {
		_, err := c.Write([]byte(text))
		require.NoError(t, err)
		got := make([]byte, len(text))
		_, err = io.ReadFull(c, got)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
	say("before")
	for range 5 {
		require.Equal(t, Restored{Connections: 1}, r.successor(s))
		say("after")
	}
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	rest, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Empty(t, rest)
	end := r.end()
	require.Equal(t, Closed, end.Reason)
	require.EqualValues(t, len("before")+5*len("after"), end.BytesIn)
	assert.EqualValues(t, 1, r.relay.Stats().Accepted)
	eventually(t, "all bytes are counted", func() bool {
		s := r.relay.Stats()
		return s.BytesIn == end.BytesIn && s.BytesOut == end.BytesOut
	})
}
