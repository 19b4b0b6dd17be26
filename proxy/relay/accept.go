package relay

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// acceptBurst is how many clients one loop takes from a socket before it looks
// after its connections again.
const acceptBurst = 8

// watch is one listening socket in one loop.
type watch struct {
	socket *Socket
	index  int
	polled bool
	hungry bool            // not polled because descriptors ran out
	held   *Limit          // not polled because this limit is reached
	gone   chan<- struct{} // leaving: closed when the queue is empty
}

// arrival is an accepted connection that no pair stands for yet.
type arrival struct {
	fd      int32
	tcp     bool
	socket  *Socket
	service *Service
	peer    netip.AddrPort
}

// acceptFrom takes who waits in a socket's queue. Each is accepted and begun
// before the next one is touched.
func (l *loop) acceptFrom(w *watch) {
	for range acceptBurst {
		if !l.acceptOne(w) {
			return
		}
	}
}

// acceptOne takes one client, and returns whether there may be another.
func (l *loop) acceptOne(w *watch) (more bool) {
	service := w.socket.service.Load()
	if w.gone != nil {
		service.Limit.active.Add(1) // the last ones are served whatever the limit
	} else if !service.Limit.enter() {
		l.hold(w, service.Limit)
		return false
	}
	if _, errno := l.spares.ready(service.Pool.Family()); errno != 0 {
		l.leave(service.Limit)
		l.starve(errno)
		return false
	}
	fd, errno := accept(w.socket.fd, &l.from)
	if errno != 0 {
		l.leave(service.Limit)
		return l.acceptFailed(w, errno)
	}
	to := l.relay.place(l)
	to.counters.active.Add(1)
	w.socket.active.Add(1)
	w.socket.accepted.Add(1)
	l.counters.accepted.Add(1)
	a := arrival{fd: fd, tcp: l.from.Addr.Family != unix.AF_UNIX, socket: w.socket, service: service, peer: addrPort(&l.from)}
	if to == l || !to.give(a) {
		l.begin(a)
	}
	if int(fd) >= l.relay.ceiling {
		l.starve(unix.EMFILE)
		return false
	}
	return true
}

// acceptFailed acts on an error of accept4, and returns whether to go on. Errors
// of a connection that ended in the queue are passed over, as accept(2) asks.
func (l *loop) acceptFailed(w *watch, errno unix.Errno) (more bool) {
	switch errno {
	case unix.EAGAIN:
		return false
	case unix.ECONNABORTED, unix.EINTR, unix.EPERM, unix.EPROTO, unix.ENOPROTOOPT, unix.ENETDOWN, unix.ENETUNREACH,
		unix.EHOSTDOWN, unix.EHOSTUNREACH, unix.ENONET, unix.EOPNOTSUPP, unix.ETIMEDOUT:
		return true
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
		l.starve(errno)
		return false
	}
	l.relay.say(event{kind: acceptFailed, socket: w.socket.label, err: errno})
	l.unpoll(w)
	return false
}

// begin makes a pair of an accepted connection.
func (l *loop) begin(a arrival) {
	l.serial += uint64(len(l.relay.loops))
	p := l.pairs.take(l.serial)
	p.socket, p.service, p.peer = a.socket, a.service, a.peer
	p.side[client] = side{fd: a.fd, tcp: a.tcp, writable: true}
	p.opened, p.active = l.now, l.now
	p.phase = waiting
	if p.service.IdleTimeout > 0 {
		l.idlers++
	}
	if l.watchSide(p, client) != 0 {
		l.giveUp(p, OutOfResources)
		return
	}
	if l.expectsHeader(p) {
		l.awaitHeader(p)
		return
	}
	l.dial(p)
}

// refuse ends a connection that the relay was closed over before it began.
func (l *loop) refuse(a arrival) {
	if a.tcp {
		disconnect(a.fd)
	}
	closeFD(a.fd)
	a.socket.active.Add(-1)
	l.counters.active.Add(-1)
	a.service.Limit.active.Add(-1) // nobody waits for room any more
}

// listen starts accepting from a socket.
func (l *loop) listen(s *Socket) {
	w := &watch{socket: s, index: len(l.watches)}
	for i := range l.watches {
		if l.watches[i] == nil {
			w.index = i
			break
		}
	}
	if w.index == len(l.watches) {
		l.watches = append(l.watches, nil)
	}
	l.watches[w.index] = w
	if !l.starved {
		l.pollSocket(w)
	}
}

// unlisten stops accepting from a socket.
func (l *loop) unlisten(s *Socket) {
	for i, w := range l.watches {
		if w != nil && w.socket == s {
			l.unpoll(w)
			l.unhold(w)
			if w.hungry {
				w.socket.paused.Add(-1)
			}
			l.watches[i] = nil
		}
	}
}

// serveQueue accepts who is already in the queue of a socket that no loop watches
// any more, then says so.
func (l *loop) serveQueue(s *Socket, gone chan<- struct{}) {
	l.leaving = append(l.leaving, &watch{socket: s, gone: gone})
	l.lastCalls()
}

func (l *loop) lastCalls() {
	left := l.leaving[:0]
	for _, w := range l.leaving {
		for l.acceptOne(w) {
		}
		if l.starved {
			left = append(left, w)
			continue
		}
		close(w.gone)
	}
	clear(l.leaving[len(left):])
	l.leaving = left
}

// hold stops accepting from a socket until a connection of its listener ends.
func (l *loop) hold(w *watch, limit *Limit) {
	if !limit.pause() {
		return // there is room again: epoll tells of the waiting client anew
	}
	l.unpoll(w)
	w.held = limit
	w.socket.paused.Add(1)
}

func (l *loop) unhold(w *watch) {
	if w.held != nil {
		w.held = nil
		w.socket.paused.Add(-1)
	}
}

// leave counts a connection out of its limit.
func (l *loop) leave(limit *Limit) {
	if limit.leave() {
		l.relay.each(func(l *loop) { l.resume(limit) })
	}
}

// resume accepts again from the sockets that a limit held back.
func (l *loop) resume(limit *Limit) {
	for _, w := range l.watches {
		if w != nil && w.held == limit {
			l.unhold(w)
			if !l.starved {
				l.pollSocket(w)
			}
		}
	}
}

// starve stops accepting from every socket: descriptors or kernel memory ran out,
// and epoll would go on telling of clients that cannot be taken.
func (l *loop) starve(errno unix.Errno) {
	if l.starved {
		return
	}
	l.starved = true
	l.relay.say(event{kind: starved, err: errno})
	for _, w := range l.watches {
		if w != nil && w.polled {
			l.unpoll(w)
			w.socket.paused.Add(1)
			w.hungry = true
		}
	}
}

// feed accepts again: a connection has ended, or it is time to try.
func (l *loop) feed() {
	if !l.starved {
		return
	}
	l.starved = false
	for _, w := range l.watches {
		if w == nil {
			continue
		}
		if w.hungry {
			w.hungry = false
			w.socket.paused.Add(-1)
		}
		if w.held == nil {
			l.pollSocket(w)
		}
	}
}

func (l *loop) pollSocket(w *watch) {
	if w.polled {
		return
	}
	if errno := l.poll(w.socket.fd, listenEvents, watchTag(w.index), 0); errno != 0 {
		l.relay.say(event{kind: acceptFailed, socket: w.socket.label, err: errno})
		return
	}
	w.polled = true
}

func (l *loop) unpoll(w *watch) {
	if w.polled {
		_ = epollCtl(l.epfd, unix.EPOLL_CTL_DEL, w.socket.fd, nil)
		w.polled = false
	}
}
