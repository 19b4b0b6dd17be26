package relay

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// acceptBurst is how many clients one loop takes from a socket before it looks
// after its connections again.
const acceptBurst = 8

// arrival is an accepted connection that no pair stands for yet, with the socket
// for its server.
type arrival struct {
	client   int32
	upstream int32 // -1 where a socket of the family cannot be made
	family   int   // of upstream
	use      *use
	peer     netip.AddrPort
	slot     *slot // nil = it is not kept
	number   uint32
	headed   bool // it must begin with a PROXY header
	asked    bool // what it has sent was looked for
	lacks    bool // some of that is gone
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

// acceptOne takes one client, and returns whether there may be another. The socket
// for its server is made first: who cannot be served is left in the queue.
func (l *loop) acceptOne(w *watch) (more bool) {
	use := w.socket.current.Load()
	service := use.service
	if w.released != nil {
		service.Limit.Enter(1) // the last ones are served whatever the limit
	} else if !service.Limit.enter() {
		l.pauseFor(w, service.Limit)
		return false
	}
	family := service.Pool.Family()
	if family == 0 {
		family = unix.AF_INET // not known yet
	}
	spare, errno := l.spares.ready(family)
	if errno == 0 && int(spare) >= l.relay.ceiling() {
		// The kernel gives the lowest free number, so all below are in use.
		l.spares.close()
		errno = unix.EMFILE
	}
	if exhausted(errno) {
		l.leave(service.Limit)
		l.pauseAll(errno)
		return false
	}
	a := arrival{upstream: spare, family: family, use: use}
	a.slot, a.number = l.ready.take(l, use)
	early := w.socket.early.Load() // after the accept it may not count this client any more
	a.client, errno = accept(w.socket.fd, &l.from)
	if errno != 0 {
		l.leave(service.Limit)
		return l.acceptFailed(w, errno)
	}
	a.peer = addrPort(&l.from)
	a.headed = service.expectsHeader(a.peer.Addr())
	l.keepArrival(&a)
	l.spares.given(family)
	if early > 0 {
		setAccepted(a.client, w.socket.tcp)
		if a.asked = w.socket.tcp && !w.socket.mptcp; a.asked {
			w.socket.acceptedEarly(early)
			a.lacks = lacksBytes(a.client)
		}
	}
	use.active.Add(1)
	w.socket.tally.add()
	l.counters.accepted.Add(1)
	to := l.relay.place(l)
	to.counters.active.Add(1)
	if to == l || !to.enqueue(a) {
		l.begin(a)
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
		l.pauseAll(errno)
		return false
	}
	l.relay.note(event{kind: acceptFailed, socket: w.socket.label, err: errno})
	if w.registered {
		l.pause(w)
		l.failing = true
	}
	return false
}

// begin makes a pair of an accepted connection.
func (l *loop) begin(a arrival) {
	l.serial += uint64(len(l.relay.loops))
	p := l.pairs.take(l.serial)
	p.use, p.peer, p.family = a.use, a.peer, a.family
	p.kept, p.number = a.slot, a.number
	p.side[client] = side{fd: a.client, tcp: a.use.socket.tcp, writable: true}
	p.side[server] = side{fd: a.upstream, tcp: a.family != unix.AF_UNIX}
	switch {
	case p.kept == nil && l.vault != nil:
		l.beginUnkept(p)
	case l.relay.resets.Load():
		p.resetAtDeath(true)
	}
	if a.asked {
		p.side[client].noteReset() // to ask eats the error
	}
	p.opened, p.active = l.now, l.now
	p.phase = accepted
	if p.use.service.IdleTimeout > 0 {
		l.idlers++
	}
	if errno := l.registerSide(p, client); errno != 0 {
		l.relay.note(event{kind: cannotWatch, listener: p.use.service.Listener, err: errno})
		l.giveUp(p, OutOfResources)
		return
	}
	switch {
	case a.lacks:
		l.giveUp(p, UrgentLost)
	case a.headed:
		l.awaitHeader(p)
	default:
		l.startDialing(p)
	}
}

// refuse ends a connection that the relay was closed over before it began.
func (l *loop) refuse(a arrival) {
	sever(a.client, a.use.socket.tcp)
	if a.slot != nil {
		l.vault.Drop(a.number)
	}
	closeFD(a.client)
	if a.upstream >= 0 {
		closeFD(a.upstream)
	}
	a.use.active.Add(-1)
	l.counters.active.Add(-1)
	a.use.service.Limit.active.Add(-1) // nobody waits for room any more
}
