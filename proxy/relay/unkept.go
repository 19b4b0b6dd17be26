package relay

import "golang.org/x/sys/unix"

// A pair that is not kept, although there is a vault or will be, ends with its process, and so
// does one in a vault that nobody else has. Where that is killed the kernel closes its sockets:
// by a reset, as a peer would take an end for that of the whole stream.

// beginUnkept is when it is not kept, or not any more.
func (l *loop) beginUnkept(p *pair) {
	l.counters.unkept.Add(1)
	p.resetAtDeath(true)
}

// endUnkept is when it is kept from now on.
func (l *loop) endUnkept(p *pair) {
	l.counters.unkept.Add(-1)
	l.settleDeath(p)
}

// settleDeath is when it is not known whether a kill is to reset it, or was.
func (l *loop) settleDeath(p *pair) {
	p.resetAtDeath(l.relay.resets.Load() || p.kept == nil && l.vault != nil)
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
