package relay

import (
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestClientAboveTheLimitWaitsInTheQueue(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{service: func(s *Service) { s.Limit = NewLimit(3) }}, b.address)
	var inside []net.Conn
	for range 3 {
		c := r.dial()
		require.NoError(t, ping(t, c))
		inside = append(inside, c)
	}
	waiting := r.dial() // the kernel accepts it, the relay does not
	_, err := waiting.Write([]byte("ping"))
	require.NoError(t, err)
	eventually(t, "accepting pauses", r.socket.Paused)
	require.NoError(t, waiting.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	_, err = waiting.Read(make([]byte, 1))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout(), "neither served nor reset")
	assert.EqualValues(t, 3, r.service.Limit.active.Load())

	require.NoError(t, waiting.SetReadDeadline(time.Now().Add(patience)))
	require.NoError(t, inside[0].Close())
	_, err = io.ReadFull(waiting, make([]byte, 4))
	require.NoError(t, err, "served when one has left")
}

func TestLimitUnderChurnIsNeverExceededAndNeverSticks(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{service: func(s *Service) { s.Limit = NewLimit(2) }}, b.address)
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				assert.LessOrEqual(t, r.socket.Active(), int64(2))
			}
		}
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 30 {
				c, err := net.Dial("tcp", r.address)
				if !assert.NoError(t, err) {
					return
				}
				_ = c.SetDeadline(time.Now().Add(patience))
				assert.NoError(t, ping(t, c))
				_ = c.Close()
			}
		})
	}
	all.Wait()
	close(over)
	watching.Wait()
	eventually(t, "all have left", func() bool { return r.service.Limit.active.Load() == 0 })
}

func TestAcceptingPausesAndResumesWhenDescriptorsRunOut(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{spare: 80}, b.address)
	var all sync.WaitGroup
	for range 60 {
		c := r.dial()
		all.Go(func() {
			assert.NoError(t, ping(t, c))
			_ = c.Close()
		})
	}
	all.Wait() // every one is served in the end
	assert.Zero(t, r.relay.Stats().Failed)
	eventually(t, "accepting from all again", func() bool { return !r.socket.Paused() })
}

func TestIdleConnectionIsEnded(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{service: func(s *Service) { s.IdleTimeout = 1500 * time.Millisecond }}, b.address)
	idle, busy := r.dial(), r.dial()
	require.NoError(t, ping(t, idle))
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				assert.NoError(t, ping(t, busy), "a busy one goes on")
			}
		}
	}()
	got, err := io.ReadAll(idle)
	require.NoError(t, err, "ended in order")
	assert.Empty(t, got)
	close(stop)
	<-done
	assert.Equal(t, Idle, r.end().Reason)
}

// stalled has clients send something each while the loop stands still and so much time
// passes, and returns when each has heard. before is done first, in the loop.
func (r *rig) stalled(clients []net.Conn, passes time.Duration, before func(*loop)) {
	r.t.Helper()
	stopped, goOn := make(chan struct{}), make(chan struct{})
	require.True(r.t, r.relay.loops[0].post(func(l *loop) {
		before(l)
		close(stopped)
		<-goOn
		r.relay.began = r.relay.began.Add(-passes)
	}))
	<-stopped
	for _, c := range clients {
		_, err := io.WriteString(c, "x")
		require.NoError(r.t, err)
	}
	close(goOn)
	for _, c := range clients {
		_, err := io.ReadFull(c, make([]byte, 1))
		require.NoError(r.t, err)
	}
}

// manyMoreThanATurnHears are clients of a relay with an idle timeout.
func manyMoreThanATurnHears(t *testing.T, idle time.Duration) (*rig, []net.Conn) {
	t.Helper()
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{loops: 1, backlog: 4096, service: func(s *Service) { s.IdleTimeout = idle }}, b.address)
	clients := make([]net.Conn, 3*turnEvents)
	for i := range clients {
		clients[i] = r.dial()
		require.NoError(t, ping(t, clients[i]))
	}
	return r, clients
}

// Whoever sent something while the process was stopped was not idle.
func TestALoopThatWasStoppedHearsBeforeItEndsTheIdle(t *testing.T) {
	const idle = time.Minute
	r, clients := manyMoreThanATurnHears(t, idle)
	r.stalled(clients, idle+sweep/2, func(*loop) {}) // so long, in which the loop did not look
}

// A turn hears so many events at most. What it has not heard yet is not quiet.
func TestALoopThatIsBehindHearsBeforeItEndsTheIdle(t *testing.T) {
	const idle = time.Minute
	r, clients := manyMoreThanATurnHears(t, idle)
	r.stalled(clients, sweep, func(l *loop) { // not so long that the loop sees that it was stopped
		l.swept = l.now
		l.pairs.each(func(p *pair) {
			p.active = l.now - int64(idle) + int64(sweep)/2
			p.looked = p.active // and nothing was in its queues
		})
	})
}

// Its peer's socket has room for long before the relay is told of it.
func TestAPeerThatReadsSlowlyIsNotIdle(t *testing.T) {
	for network, size := range map[string]int{"tcp": 16 << 10, "unix": 4 << 10} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			const idle = time.Second
			b := newBackend(t, "tcp", flood)
			r := newRig(t, setup{network: network, service: func(s *Service) { s.IdleTimeout = idle }}, b.address)
			c := r.dial()
			began := time.Now()
			for some := make([]byte, size); time.Since(began) < 4*idle; {
				_, err := io.ReadFull(c, some)
				require.NoError(t, err)
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
}

// Nobody takes anything of what waits for him.
func TestAPeerThatDoesNotReadIsIdle(t *testing.T) {
	b := newBackend(t, "tcp", flood)
	r := newRig(t, setup{service: func(s *Service) { s.IdleTimeout = time.Second }}, b.address)
	r.dial()
	assert.Equal(t, Idle, r.end().Reason)
}

func TestReleasedSocketServesItsQueueAndThenNobody(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{service: func(s *Service) { s.Limit = NewLimit(1) }}, b.address)
	first := r.dial()
	require.NoError(t, ping(t, first))
	queued := make([]net.Conn, 5)
	for i := range queued {
		queued[i] = r.dial() // above the limit: in the queue
	}
	select {
	case <-r.relay.Release(r.socket, true):
	case <-time.After(patience):
		require.Fail(t, "not released")
	}
	for _, c := range queued {
		require.NoError(t, ping(t, c))
	}
	eventually(t, "all count", func() bool { return r.relay.Stats().Active == 6 })
	late := r.dial() // the kernel still queues: the socket is not closed
	fd, _, err := unix.Accept4(r.fd, unix.SOCK_CLOEXEC)
	require.NoError(t, err, "the relay has left it")
	require.NoError(t, unix.Close(fd))
	_ = late.Close()
	require.NoError(t, ping(t, first), "and who was there goes on")
}

func TestReleaseWithoutQueueLeavesItToTheNext(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{service: func(s *Service) { s.Limit = NewLimit(1) }}, b.address)
	require.NoError(t, ping(t, r.dial()))
	c := r.dial() // above the limit: in the queue
	_, err := c.Write([]byte("ping"))
	require.NoError(t, err)
	<-r.relay.Release(r.socket, false)
	assert.EqualValues(t, 1, r.relay.Stats().Accepted)
	r.relay.HangUp(Selection{})
	eventually(t, "room", func() bool { return r.relay.Stats().Active == 0 })
	r.relay.Serve(r.socket) // the next one
	_, err = io.ReadFull(c, make([]byte, 4))
	require.NoError(t, err)
}

func TestLoopsShareLongConnections(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{loops: 2}, b.address)
	for range 200 {
		require.NoError(t, ping(t, r.dial()))
	}
	for _, l := range r.relay.loops {
		assert.GreaterOrEqual(t, l.counters.active.Load(), int64(60))
	}
}

func TestHangUpEndsWhatIsIdleInOrderAndWhatIsNotByReset(t *testing.T) {
	b := newBackend(t, "tcp", func(c net.Conn) {
		one := make([]byte, 1)
		_, _ = io.ReadFull(c, one)
		for one[0] == 's' { // stream for ever
			if _, err := c.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
		_, _ = c.Write(one)
		_, _ = io.Copy(io.Discard, c)
	})
	r := newRig(t, setup{}, b.address)
	idle, stream := r.dial(), r.dial()
	_, err := idle.Write([]byte("i"))
	require.NoError(t, err)
	_, err = io.ReadFull(idle, make([]byte, 1))
	require.NoError(t, err)
	_, err = stream.Write([]byte("s"))
	require.NoError(t, err)
	_, err = io.ReadFull(stream, make([]byte, 1<<20))
	require.NoError(t, err)
	eventually(t, "the stream stalls at a full window", func() bool {
		before := r.relay.Stats().BytesOut
		time.Sleep(50 * time.Millisecond) // a rate is what is looked at
		return r.relay.Stats().BytesOut == before
	})
	eventually(t, "the idle one has been quiet", func() bool {
		longest := int64(0)
		r.eachLoop(func(l *loop) {
			l.pairs.each(func(p *pair) { longest = max(longest, r.relay.clock()-p.active) })
		})
		return longest > int64(quiet)
	})
	// The stream stays a stalled one: it owes.
	r.relay.HangUp(Selection{})
	_, err = io.ReadAll(idle)
	require.NoError(t, err)
	_, err = io.ReadAll(stream)
	assert.ErrorIs(t, err, syscall.ECONNRESET, "a stream cut off must not look whole")
	eventually(t, "nobody is left", func() bool { return r.relay.Stats().Active == 0 })
}

// noSlabs is where no slab can be had.
type noSlabs struct{ Vault }

func (noSlabs) Slab() ([]byte, uint32, error) { return nil, 0, unix.ENOMEM }

func TestConnectionWithoutMemoryIsResetAndTheOthersGoOn(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{loops: 1}, b.address)
	before := r.dial()
	require.NoError(t, ping(t, before))
	r.eachLoop(func(l *loop) { // as if the kernel had no more, and every buffer were in use
		l.own.buffers.vault = noSlabs{}
		l.own.buffers.free, l.own.buffers.cold = nil, 0
	})
	c := r.dial()
	_, err := c.Write([]byte("ping"))
	require.NoError(t, err)
	_, err = io.ReadAll(c)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	end := r.end()
	assert.Equal(t, OutOfResources, end.Reason)

	r.eachLoop(func(l *loop) { l.own.buffers.vault = nil })
	require.NoError(t, ping(t, before), "who was there goes on")
	require.NoError(t, ping(t, r.dial()), "and new ones come")
}
