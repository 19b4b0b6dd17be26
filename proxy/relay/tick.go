package relay

// onTick does what is due.
func (l *loop) onTick() {
	if l.now-l.ticked >= int64(tick) {
		l.ticked = l.now
		for p := l.timed; p != nil; {
			next := p.timedNext // p may be gone after its turn
			l.onDeadline(p)
			p = next
		}
		if l.paused || l.failing {
			l.failing = false
			l.resumeAll()
		}
	}
	if l.now-l.swept >= int64(sweep) {
		l.swept, l.stops = l.now, 0
		l.own.trim()
		l.shared.trim()
		l.keepLate()
		l.recovered()
		if l.idlers > 0 {
			l.pairs.each(l.endIdle)
		}
	}
}
