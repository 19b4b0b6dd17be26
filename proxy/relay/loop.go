package relay

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/proxyproto"
)

const (
	// turnEvents is how many events one turn of the loop handles at most.
	turnEvents = 256
	// tick is how often deadlines are looked at while there are any.
	tick = 50 * time.Millisecond
	// shortageOver is how long no descriptor must have been short before that is said.
	shortageOver = 2 * time.Second
	// sweep is how often idle connections and free memory are looked at.
	sweep = time.Second
	// yieldEvery is how often a busy loop calls the scheduler: well within the
	// 10 ms that the runtime grants a goroutine.
	yieldEvery = 8 * time.Millisecond
)

// loop is one epoll loop with everything that its connections need. Only its own
// goroutine touches it, but for inbox and counters.
type loop struct {
	relay  *Relay
	index  int // among the relay's loops
	epfd   int
	wakefd int
	events [turnEvents]unix.EpollEvent

	now     int64 // monotonic nanoseconds since the relay began, read once a turn
	swept   int64
	ticked  int64
	yielded int64
	stopped bool

	deafSince int64 // when it began to be behind with its events; 0 = it is not
	stops     int   // how often it was stopped since it last looked after all pairs

	pairs   table
	own     memory
	shared  memory // with the next process; of pairs that are kept
	vault   Vault  // nil = nothing is kept
	ready   ready  // for the next client
	spares  spares
	scratch []byte // for looking at PROXY headers
	from    unix.RawSockaddrAny

	watches  []*watch // by index in their tag; nil = free
	draining []*watch // no longer watched; who is in their queue is served before they go
	held     bool     // accepting from nothing, until Unhold
	paused   bool     // out of descriptors: accepting from nothing
	failing  bool     // accepting from some socket fails: to be tried again
	short    bool     // descriptors ran out, and it was said
	pausedAt int64

	queue  []*pair // have used up their turn and go on in the next
	reuse  []*pair // the queue of the turn before, for its memory
	timed  *pair   // pairs with a deadline
	idlers int     // pairs of services with an idle timeout
	serial uint64

	inbox    inbox
	counters counters
	total    *count // the same where the next process finds it; nil = nowhere
}

// counters of a loop. The loop adds to its own copies and publishes them once a
// turn; anyone may read what is published.
type counters struct {
	in, out                  int64
	bytesIn, bytesOut        atomic.Int64
	accepted, active, failed atomic.Int64
	unkept                   atomic.Int64 // of the active ones, where there is a vault
	restored                 atomic.Int64
}

func newLoop(r *Relay, index int) (*loop, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	wakefd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(epfd)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	l := &loop{
		relay: r, index: index, epfd: epfd, wakefd: wakefd,
		spares: newSpares(), own: newMemory(r), serial: uint64(index),
		scratch: make([]byte, proxyproto.MaxLen),
	}
	if err := l.register(int32(wakefd), unix.EPOLLIN, wakeTag, 0); err != 0 {
		l.close()
		return nil, fmt.Errorf("epoll_ctl: %w", err)
	}
	return l, nil
}

// run turns until stop is called. It ends with every connection closed.
func (l *loop) run() {
	defer l.close()
	for !l.stopped {
		wait := l.waitTimeout()
		n, err := unix.EpollWait(l.epfd, l.events[:], wait)
		if err != nil && err != unix.EINTR {
			panic(fmt.Sprintf("epoll_wait: %v", err)) // EBADF or EINVAL: the loop itself is wrong
		}
		l.tellTime(wait)
		for i := range max(n, 0) {
			l.dispatch(&l.events[i])
		}
		l.runQueued()
		if l.inbox.pending.Load() {
			l.inbox.run(l)
		}
		if l.hearsAll(n, err) {
			l.onTick()
		}
		if l.drains() {
			l.drainQueues()
		}
		l.publish()
		l.yield()
	}
}

// tellTime reads the clock after a wait of so many milliseconds at most. A loop that was
// stopped, by a signal or a busy host, first hears what has happened, before it ends what
// seems to have been quiet.
func (l *loop) tellTime(wait int) {
	before := l.now
	l.now = l.relay.clock()
	stopped := l.now-before > int64(wait)*int64(time.Millisecond)+4*int64(tick)
	if stopped && l.stops < mostStops {
		l.stops++
		l.ticked, l.swept = l.now, l.now
	}
}

// mostStops is how often in a row a loop that was stopped puts off what is due.
const mostStops = 4

// mostDeaf is for how long a loop puts off what is due, to hear before what has happened.
const mostDeaf = 200 * time.Millisecond

// hearsAll tells whether a turn has heard all that had happened, or has been trying to for
// long enough. A signal may end a wait before anything is heard, as after SIGCONT.
func (l *loop) hearsAll(n int, err error) bool {
	if err == nil && n < len(l.events) {
		l.deafSince = 0
		return true
	}
	if l.deafSince == 0 {
		l.deafSince = l.now
	}
	return l.now-l.deafSince >= int64(mostDeaf)
}

// yield lets the runtime see that this goroutine does not hog its thread. One that
// never calls the scheduler is interrupted by a signal every 10 ms, and its
// processor is taken away at every wait, each time by a monitor that then looks
// again every 20 µs: a twentieth of a busy proxy's CPU.
func (l *loop) yield() {
	if l.now-l.yielded >= int64(yieldEvery) {
		l.yielded = l.now
		runtime.Gosched()
	}
}

// waitTimeout is how long the next wait may last, in milliseconds.
func (l *loop) waitTimeout() int {
	switch {
	case len(l.queue) > 0 || l.drains() || l.deafSince != 0:
		return 0
	case l.timed != nil || l.paused || l.failing:
		return int(tick / time.Millisecond)
	case l.idlers > 0 || l.short || l.own.trimmable() || l.shared.trimmable() || l.counters.unkept.Load() > 0:
		return int(sweep / time.Millisecond)
	}
	return -1
}

func (l *loop) publish() {
	c := &l.counters
	if c.in != c.bytesIn.Load() {
		c.bytesIn.Store(c.in)
	}
	if c.out != c.bytesOut.Load() {
		c.bytesOut.Store(c.out)
	}
	if l.total != nil {
		l.total.set(c)
	}
}

func (l *loop) close() {
	l.inbox.close(l)
	l.pairs.each(func(p *pair) { l.hangUp(p, Stopped) })
	for _, w := range l.draining {
		close(w.released)
	}
	l.spares.close()
	l.ready.giveUp(l)
	l.own.close()
	l.shared.close()
	l.publish()
	_ = unix.Close(l.wakefd)
	_ = unix.Close(l.epfd)
}
