package relay

// setDeadline puts a pair on the loop's list of those that time may end. The list
// is short and walked every tick: pairs that are dialling, waiting, or dying.
func (l *loop) setDeadline(p *pair, at int64) {
	p.deadline = at
	if p.timed {
		return
	}
	p.timed = true
	p.timedPrev, p.timedNext = nil, l.timed
	if l.timed != nil {
		l.timed.timedPrev = p
	}
	l.timed = p
}

func (l *loop) clearDeadline(p *pair) {
	if !p.timed {
		return
	}
	p.timed = false
	if p.timedPrev != nil {
		p.timedPrev.timedNext = p.timedNext
	} else {
		l.timed = p.timedNext
	}
	if p.timedNext != nil {
		p.timedNext.timedPrev = p.timedPrev
	}
	p.timedPrev, p.timedNext = nil, nil
}

// keepTime does what is due.
func (l *loop) keepTime() {
	if l.now-l.ticked >= int64(tick) {
		l.ticked = l.now
		for p := l.timed; p != nil; {
			next := p.timedNext // p may be gone after its turn
			l.overdue(p)
			p = next
		}
		l.feed()
		if len(l.leaving) > 0 {
			l.lastCalls()
		}
	}
	if l.now-l.swept >= int64(sweep) {
		l.swept = l.now
		l.buffers.trim()
		l.pipes.trim()
		if l.idlers > 0 {
			l.pairs.each(l.endIdle)
		}
	}
}

// overdue acts on a pair that has a deadline.
func (l *loop) overdue(p *pair) {
	if p.phase == flushing || p.phase == open {
		l.flush(p)
		return
	}
	if l.now < p.deadline {
		return
	}
	switch p.phase {
	case header:
		l.giveUp(p, BadHeader)
	case dialing:
		l.attemptFailed(p, timedOut)
		l.dial(p)
	case waiting:
		l.dial(p)
	case open, flushing, gone:
	}
}

// endIdle ends an open pair that moved nothing for its listener's idle timeout.
func (l *loop) endIdle(p *pair) {
	if p.phase == open && p.service.IdleTimeout > 0 && l.now-p.active >= int64(p.service.IdleTimeout) {
		l.hangUp(p, Idle)
	}
}
