package relay

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// turnEvents is how many events one turn of the loop handles at most.
	turnEvents = 256
	// tick is how often deadlines are looked at while there are any.
	tick = 50 * time.Millisecond
	// sweep is how often idle connections and free memory are looked at.
	sweep = time.Second
	// yieldEvery is how often a busy loop calls the scheduler: well within the
	// 10 ms that the runtime grants a goroutine.
	yieldEvery = 8 * time.Millisecond
)

// Edge-triggered for connections, so that nothing is re-armed while they wait.
// EPOLLPRI tells of urgent data, where a read stops short; EPOLLRDHUP of a FIN.
const connEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLPRI | unix.EPOLLET&math.MaxUint32

// Level-triggered for listening sockets; one waiting loop is woken for a client,
// not all of them.
const listenEvents = unix.EPOLLIN | unix.EPOLLEXCLUSIVE

// What an epoll event points to stands in its data: a pair's slot and side in
// the first half and the low half of its serial in the second, or below zero
// the wake-up descriptor or a listening socket.
const wakeTag int32 = -1

func connTag(p *pair, side int) (int32, int32) {
	return int32(p.slot<<1) | int32(side), int32(uint32(p.serial))
}

func watchTag(index int) int32   { return -2 - int32(index) }
func watchIndex(tag int32) int32 { return -2 - tag }

// loop is one epoll loop with everything that its connections need. Only its own
// thread touches it, but for inbox and counters.
type loop struct {
	relay  *Relay
	index  int
	epfd   int
	wakefd int
	events [turnEvents]unix.EpollEvent

	now     int64 // monotonic nanoseconds since the relay began, read once a turn
	swept   int64
	ticked  int64
	yielded int64
	stopped bool

	pairs   table
	buffers bufferPool
	pipes   pipePool
	spares  spares
	scratch []byte // for looking at PROXY headers
	from    unix.RawSockaddrAny

	watches []*watch // by index in their tag; nil = free
	leaving []*watch // no longer watched; who is in their queue is served before they go
	starved bool     // out of descriptors: accepting from nothing

	ready  []*pair // have used up their turn and go on in the next
	spent  []*pair // the ready list of the turn before, for reuse
	timed  *pair   // pairs with a deadline
	idlers int     // pairs of services with an idle timeout
	serial uint64

	inbox    inbox
	counters counters
}

// counters of a loop. The loop adds to its own copies and publishes them once a
// turn; anyone may read what is published.
type counters struct {
	in, out                          int64
	bytesIn, bytesOut                atomic.Int64
	accepted, active, failed, resets atomic.Int64
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
		spares: newSpares(), pipes: pipePool{most: r.pipesPerLoop()}, serial: uint64(index),
		scratch: make([]byte, headerPeek),
	}
	if err := l.poll(int32(wakefd), unix.EPOLLIN, wakeTag, 0); err != 0 {
		l.close()
		return nil, fmt.Errorf("epoll_ctl: %w", err)
	}
	return l, nil
}

// run turns until stop is called. It ends with every connection closed.
func (l *loop) run() {
	defer l.close()
	for !l.stopped {
		n, err := unix.EpollWait(l.epfd, l.events[:], l.patience())
		if err != nil && err != unix.EINTR {
			panic(fmt.Sprintf("epoll_wait: %v", err)) // EBADF or EINVAL: the loop itself is wrong
		}
		l.now = l.relay.clock()
		for i := range max(n, 0) {
			l.dispatch(&l.events[i])
		}
		l.goOn()
		if l.inbox.any.Load() {
			l.inbox.run(l)
		}
		l.keepTime()
		l.publish()
		l.yield()
	}
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

// patience is how long the next wait may last, in milliseconds.
func (l *loop) patience() int {
	switch {
	case len(l.ready) > 0:
		return 0
	case l.timed != nil || l.starved || len(l.leaving) > 0:
		return int(tick / time.Millisecond)
	case l.idlers > 0 || l.buffers.warm():
		return int(sweep / time.Millisecond)
	}
	return -1
}

func (l *loop) dispatch(ev *unix.EpollEvent) {
	switch {
	case ev.Fd >= 0:
		p := l.pairs.at(uint32(ev.Fd) >> 1)
		if p.phase == gone || uint32(p.serial) != uint32(ev.Pad) {
			return // ended earlier in this turn
		}
		l.event(p, int(ev.Fd&1), ev.Events)
	case ev.Fd == wakeTag:
		var b [8]byte
		_, _ = unix.Read(l.wakefd, b[:])
	default:
		if w := l.watches[watchIndex(ev.Fd)]; w != nil {
			l.acceptFrom(w)
		}
	}
}

// event notes what epoll says of one side of a pair and lets its phase act on it.
func (l *loop) event(p *pair, at int, events uint32) {
	s := &p.side[at]
	if events&unix.EPOLLOUT != 0 {
		s.writable = true
	}
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR|unix.EPOLLPRI) != 0 {
		s.readable = true
	}
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR|unix.EPOLLPRI) != 0 {
		s.hangup = true
	}
	failed := events&unix.EPOLLERR != 0
	switch p.phase {
	case open:
		if failed {
			l.broke(p, at)
			return
		}
		l.moved(p, at, events)
	case header:
		l.readHeader(p)
	case dialing, waiting:
		if at == client {
			if failed {
				l.reset(p, ClientLeft)
			}
			return
		}
		if p.phase == dialing {
			l.dialed(p, failed)
		}
	case flushing, gone:
	}
}

// moved acts on an event of an open pair: at may have more for the other side,
// or take more from it.
func (l *loop) moved(p *pair, at int, events uint32) {
	serial := p.serial
	if p.side[at].readable {
		l.pump(p, at)
	}
	if events&unix.EPOLLOUT != 0 && p.serial == serial && p.phase == open {
		l.pump(p, 1-at)
	}
}

// again lets a pair go on in the next turn.
func (l *loop) again(p *pair) {
	if !p.queued {
		p.queued = true
		l.ready = append(l.ready, p)
	}
}

// goOn gives those that used up their turn another one.
func (l *loop) goOn() {
	turn := l.ready
	l.ready, l.spent = l.spent[:0], turn
	for _, p := range turn {
		if !p.queued {
			continue // ended since
		}
		p.queued = false
		serial := p.serial
		l.pump(p, client)
		if p.serial == serial && p.phase == open {
			l.pump(p, server)
		}
	}
}

func (l *loop) publish() {
	c := &l.counters
	if c.in != c.bytesIn.Load() {
		c.bytesIn.Store(c.in)
	}
	if c.out != c.bytesOut.Load() {
		c.bytesOut.Store(c.out)
	}
}

// poll registers a descriptor in epoll.
func (l *loop) poll(fd int32, events uint32, tag, serial int32) unix.Errno {
	ev := unix.EpollEvent{Events: events, Fd: tag, Pad: serial}
	return epollCtl(l.epfd, unix.EPOLL_CTL_ADD, fd, &ev)
}

// watchSide registers one side of a pair.
func (l *loop) watchSide(p *pair, at int) unix.Errno {
	s := &p.side[at]
	if s.polled {
		return 0
	}
	tag, serial := connTag(p, at)
	errno := l.poll(s.fd, connEvents, tag, serial)
	s.polled = errno == 0
	return errno
}

// forget takes a descriptor out of epoll and closes it.
func (l *loop) forget(s *side) {
	if s.fd < 0 {
		return
	}
	if s.polled {
		_ = epollCtl(l.epfd, unix.EPOLL_CTL_DEL, s.fd, nil)
	}
	closeFD(s.fd)
	s.fd, s.polled = -1, false
}

func (l *loop) close() {
	l.inbox.close(l)
	l.pairs.each(func(p *pair) { l.hangUp(p, Stopped) })
	for _, w := range l.leaving {
		close(w.gone)
	}
	l.spares.close()
	l.pipes.close()
	l.buffers.close()
	l.publish()
	_ = unix.Close(l.wakefd)
	_ = unix.Close(l.epfd)
}
