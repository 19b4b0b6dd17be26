package relay

import "sync/atomic"

// endIdle ends an open pair that moved nothing for its listener's idle timeout.
func (l *loop) endIdle(p *pair) {
	if p.phase != open || p.use.service.IdleTimeout == 0 {
		return
	}
	if l.now-p.active >= int64(p.use.service.IdleTimeout) {
		l.hangUp(p, Idle)
		return
	}
	p.noteIdle(l.now)
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
