package relay

// Hold has nobody accepted until Unhold: who comes waits in the kernel's queues. It is for
// what has to count before others do, and may be called at any time. When it returns no
// loop accepts any more.
func (r *Relay) Hold() { r.eachWait((*loop).hold) }

// Unhold ends a Hold. It does nothing where there is none.
func (r *Relay) Unhold() { r.each((*loop).unhold) }

func (l *loop) hold() {
	l.held = true
	for _, w := range l.watches {
		if w != nil {
			l.unregister(w)
		}
	}
}

func (l *loop) unhold() {
	if !l.held {
		return
	}
	l.held = false
	for _, w := range l.watches {
		if w != nil && !w.pausedHere { // resumeAll sees to those
			l.registerSocket(w)
		}
	}
}
