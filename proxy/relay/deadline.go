package relay

import "golang.org/x/sys/unix"

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

// onDeadline acts on a pair that has a deadline.
func (l *loop) onDeadline(p *pair) {
	if p.phase == flushing || p.phase == open {
		l.checkDelivery(p)
		return
	}
	if l.now < p.deadline {
		return
	}
	switch p.phase {
	case header:
		l.refuseHeader(p, errHeaderTimeout)
	case dialing:
		l.attemptFailed(p, unix.ETIMEDOUT)
		l.dial(p)
	case waiting:
		l.dial(p)
	case accepted, open, flushing, gone:
	}
}
