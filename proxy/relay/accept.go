package relay

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// acceptBurst is how many clients one loop takes from a socket before it looks
// after its connections again.
const acceptBurst = 8

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
	if _, errno := l.spares.ready(service.Pool.Family()); exhausted(errno) {
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
	}
	if exhausted(errno) {
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
