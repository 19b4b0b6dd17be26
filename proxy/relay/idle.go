package relay

import "sync/atomic"

// endIdle ends an open pair that moved nothing for its listener's idle timeout.
func (l *loop) endIdle(p *pair) {
	timeout := int64(p.use.service.IdleTimeout)
	if p.phase != open || timeout == 0 {
		return
	}
	known := p.looked >= p.active
	if l.now-max(p.active, p.looked) >= timeout/4 && p.look(l.now) && known {
		p.active = l.now
	}
	if known && l.now-p.active >= timeout && !p.hasUnheard() {
		l.hangUp(p, Idle)
		return
	}
	p.noteIdle(l.now)
}

// look looks at what lies in the send queues, and tells whether that has changed: a peer
// takes it. The loop hears of it only when a good part of a queue is free.
func (p *pair) look(now int64) (moves bool) {
	left := unacknowledged(p.side[client].fd) + unacknowledged(p.side[server].fd)
	moves = left != p.queues
	p.looked, p.queues = now, left
	return moves
}

// hasUnheard tells whether bytes have come that the loop was not told of yet.
func (p *pair) hasUnheard() bool {
	for i := range p.side {
		if s, f := &p.side[i], &p.flow[i]; f.state == flowing && !f.owes() && !s.readable && hasUnread(s.fd) {
			return true
		}
	}
	return false
}

// noteIdle notes for how long a pair has been idle, and after how many bytes: when others
// have moved since, it is not true any more.
func (p *pair) noteIdle(now int64) {
	if p.kept == nil {
		return
	}
	atomic.StoreInt64(&p.kept.idle, 0)
	atomic.StoreInt64(&p.kept.moved, p.moved())
	atomic.StoreInt64(&p.kept.idle, now-p.active)
}

// resumeIdle goes on with that. The time without a process does not count: its peers
// could not be heard then.
func (p *pair) resumeIdle(now int64) {
	if p.moved() == p.kept.moved {
		p.active = now - max(0, p.kept.idle)
	}
}

// moved is how many bytes a pair has taken from both sides.
func (p *pair) moved() int64 { return p.flow[client].moved + p.flow[server].moved }
