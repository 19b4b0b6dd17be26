package relay

import "golang.org/x/sys/unix"

// dispatch hands one event to what it is about.
func (l *loop) dispatch(ev *unix.EpollEvent) {
	switch {
	case ev.Fd >= 0:
		p := l.pairs.at(uint32(ev.Fd) >> 1)
		if p.phase == gone || uint32(p.serial) != uint32(ev.Pad) {
			return // ended earlier in this turn
		}
		l.onEvent(p, int(ev.Fd&1), ev.Events)
	case ev.Fd == wakeTag:
		var b [8]byte
		_, _ = unix.Read(l.wakefd, b[:])
	default:
		w := l.watches[watchIndex(ev.Fd)]
		switch {
		case w == nil || !w.registered: // released or paused earlier in this turn
		case ev.Events&unix.EPOLLHUP != 0:
			l.acceptFailed(w, unix.EINVAL) // somebody has shut the socket down
		default:
			l.acceptFrom(w)
		}
	}
}

// onEvent notes what epoll says of one side of a pair and lets its phase act on it.
func (l *loop) onEvent(p *pair, at int, events uint32) {
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
	if events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		s.down = true
	}
	failed := events&unix.EPOLLERR != 0
	switch p.phase {
	case open:
		if failed {
			l.sideReset(p, at)
			return
		}
		l.onOpenEvent(p, at, events)
	case header:
		l.readHeader(p)
	case accepted, dialing, waiting:
		if at == client {
			if failed {
				l.reset(p, ClientLeft)
			}
			return
		}
		if p.phase == dialing {
			l.onConnect(p, failed)
		}
	case flushing:
		if s.down {
			l.checkDelivery(p) // nobody is left to deliver to
		}
	case gone:
	}
}

// onOpenEvent acts on an event of an open pair: at may have more for the other side,
// or take more from it.
func (l *loop) onOpenEvent(p *pair, at int, events uint32) {
	serial := p.serial
	if p.side[at].readable {
		l.pump(p, at)
	}
	if events&unix.EPOLLOUT != 0 && p.serial == serial && p.phase == open {
		l.pump(p, 1-at)
	}
}
