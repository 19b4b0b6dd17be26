package relay

// requeue lets a pair go on in the next turn.
func (l *loop) requeue(p *pair) {
	if !p.queued {
		p.queued = true
		l.queue = append(l.queue, p)
	}
}

// runQueued gives those that used up their turn another one.
func (l *loop) runQueued() {
	turn := l.queue
	l.queue, l.reuse = l.reuse[:0], turn
	for _, p := range turn {
		if !p.queued {
			continue // ended since
		}
		p.queued = false
		if p.phase != open {
			continue
		}
		l.pumpBoth(p)
	}
}
