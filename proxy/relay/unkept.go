package relay

import "golang.org/x/sys/unix"

// A pair that is not kept, although there is a vault or will be, ends with its process. Where
// that is killed the kernel closes its sockets: by a reset, as a peer would take an end for
// that of the whole stream.

// beginUnkept is when it is not kept, or not any more.
func (l *loop) beginUnkept(p *pair) {
	l.counters.unkept.Add(1)
	p.resetAtDeath(true)
}

// endUnkept is when a pair is kept from now on, or ends.
func (l *loop) endUnkept(p *pair) {
	l.counters.unkept.Add(-1)
	p.resetAtDeath(false)
}

// resetAtDeath says what closing a side does that was not ended before.
func (p *pair) resetAtDeath(on bool) {
	p.resets = on
	var l unix.Linger
	if on {
		l.Onoff = 1
	}
	for i := range p.side {
		if s := &p.side[i]; s.fd >= 0 && s.tcp {
			setLinger(s.fd, l)
		}
	}
}
