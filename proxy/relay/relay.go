package relay

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a Relay.
type Options struct {
	Loops       int // event loops, at least 1; one a core is best
	Descriptors int // the process's limit of open descriptors; 0 = none
	Log         *slog.Logger
	OnEnd       func(End) // called for each ended connection while SetReporting is on, from one goroutine
}

// reserve is how many descriptors the relay leaves to the rest of the process:
// control socket, probes, look-ups. An eighth where the limit is very low.
const reserve = 32

// Relay relays the connections of any number of listening sockets.
type Relay struct {
	options Options
	loops   []*loop
	running sync.WaitGroup
	began   time.Time

	descriptors   int           // those from this number up are never for connections
	reserved      atomic.Int64  // those that are not for now, below them
	ephemeral     uint16        // first port that connecting sockets are given
	headerTimeout time.Duration // headerTimeout; shorter in tests

	vaults  atomic.Pointer[[]Vault] // one for each loop; nil = connections end with this process
	keeping atomic.Bool             // new connections are kept there
	resets  atomic.Bool             // whoever is here when this process is killed, kept or not
	noting  sync.Mutex
	noted   map[*use]Vault // that have a note; noting is held
	tallies tallies
	before  atomic.Pointer[count] // by former processes; nil = not known yet

	reporting atomic.Bool
	unlogged  atomic.Int64
	ends      chan End
	events    chan event
	written   chan struct{}
}

// New starts the loops of a relay that serves nothing yet.
func New(o Options) (*Relay, error) {
	r := &Relay{
		options: o, began: time.Now(), descriptors: math.MaxInt,
		noted: make(map[*use]Vault), tallies: newTallies(),
		headerTimeout: headerTimeout, ephemeral: firstEphemeral(),
		ends: make(chan End, 1024), events: make(chan event, 256), written: make(chan struct{}),
	}
	if o.Descriptors > 0 {
		r.descriptors = o.Descriptors - min(reserve, o.Descriptors/8)
	}
	for i := range o.Loops {
		l, err := newLoop(r, i)
		if err != nil {
			for _, l := range r.loops {
				l.close()
			}
			return nil, fmt.Errorf("event loop: %w", err)
		}
		r.loops = append(r.loops, l)
	}
	for _, l := range r.loops {
		r.running.Go(l.run)
	}
	go r.writeLog()
	return r, nil
}

// Serve accepts from s until Release.
func (r *Relay) Serve(s *Socket) {
	r.describe(s.current.Load())
	r.each(func(l *loop) { l.listen(s) })
}

// Release stops accepting from s. The channel that it returns is closed when no
// loop touches the descriptor any more. With queue, who already waits in the
// socket's queue is accepted first, which is for sockets that are to be closed;
// without, they are left to whoever listens next.
func (r *Relay) Release(s *Socket, queue bool) <-chan struct{} {
	gone := make(chan struct{})
	left := atomic.Int32{}
	left.Store(int32(len(r.loops)))
	for _, l := range r.loops {
		ok := l.post(func(l *loop) {
			l.unlisten(s)
			if left.Add(-1) > 0 {
				return
			}
			if queue {
				l.drainQueue(s, gone)
				return
			}
			close(gone)
		})
		if !ok && left.Add(-1) == 0 {
			close(gone)
		}
	}
	return gone
}

// SetReporting turns the calls of OnEnd on or off.
func (r *Relay) SetReporting(on bool) { r.reporting.Store(on && r.options.OnEnd != nil) }

// Turn returns when each loop has turned once more, or with ctx's error.
func (r *Relay) Turn(ctx context.Context) error {
	turned := make(chan struct{}, len(r.loops))
	for _, l := range r.loops {
		if !l.post(func(*loop) { turned <- struct{}{} }) {
			turned <- struct{}{}
		}
	}
	for range r.loops {
		select {
		case <-turned:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Close ends every connection and stops the loops. It is called once. Sockets need
// not be released before; none is touched after.
func (r *Relay) Close() {
	r.each(func(l *loop) { l.stopped = true })
	r.running.Wait()
	close(r.ends)
	<-r.written
}

// each runs fn in every loop's goroutine, soon.
func (r *Relay) each(fn func(*loop)) {
	for _, l := range r.loops {
		l.post(fn)
	}
}

// imbalance is by how many connections a loop may be ahead of another before it
// gives new ones away: a loop that is awake accepts most cheaply itself.
const imbalance = 16

// place chooses the loop for a connection that l has accepted: l itself unless
// another has clearly fewer.
func (r *Relay) place(l *loop) *loop {
	mine := l.counters.active.Load()
	least := mine - max(imbalance, mine/8)
	to := l
	for _, other := range r.loops {
		if n := other.counters.active.Load(); n < least {
			to, least = other, n
		}
	}
	return to
}

// pipesPerLoop shares the pipes that a user may have.
func (r *Relay) pipesPerLoop() int { return mostPipes / r.options.Loops }

// clock is the time since the relay began, in monotonic nanoseconds. It starts
// well above zero so that no moment is before the first.
func (r *Relay) clock() int64 { return int64(time.Since(r.began)) + int64(time.Hour) }

// at is a time of this process on the clock, whatever the host's clock is set to meanwhile.
func (r *Relay) at(t time.Time) int64 { return int64(t.Sub(r.began)) + int64(time.Hour) }

// wall is a moment of the clock in nanoseconds since 1970.
func (r *Relay) wall(at int64) int64 { return r.began.UnixNano() + at - int64(time.Hour) }

// moment is a time of a former process, in nanoseconds since 1970, on the clock. It may be
// before zero, and is never to come, although the host's clock may have been set back.
func (r *Relay) moment(wall int64) int64 {
	return min(wall-r.began.UnixNano()+int64(time.Hour), r.clock())
}

// Stats counts over the life of a relay, and of those before it that had its vault.
type Stats struct {
	Accepted, Active  int64
	Unkept            int64 // of the active ones: they end with this process, although there are vaults
	Restored          int64
	Failed            int64 // no server, a bad PROXY header, or no descriptor or memory
	BytesIn, BytesOut int64 // from and to clients
	Unlogged          int64 // ends and events that were not logged: the log could not keep up
}

// Stats sums up the loops. Bytes are those of each loop's last turn.
func (r *Relay) Stats() Stats {
	s := Stats{Unlogged: r.unlogged.Load()}
	if b := r.before.Load(); b != nil {
		s.Accepted, s.Failed, s.BytesIn, s.BytesOut = b.accepted, b.failed, b.in, b.out
	}
	for _, l := range r.loops {
		c := &l.counters
		s.Accepted += c.accepted.Load()
		s.Active += c.active.Load()
		s.Unkept += c.unkept.Load()
		s.Restored += c.restored.Load()
		s.Failed += c.failed.Load()
		s.BytesIn += c.bytesIn.Load()
		s.BytesOut += c.bytesOut.Load()
	}
	return s
}
