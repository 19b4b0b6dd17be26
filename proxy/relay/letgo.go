package relay

// LetGo leaves the connections that are kept to whoever has the vault now, and touches
// none of them, nor the vault, when it returns. What they owe is where the next process
// finds it. Others stay, and none is kept any more. Nothing is to be accepted meanwhile.
func (r *Relay) LetGo() {
	r.keeping.Store(false)
	r.eachWait(func(*loop) {}) // who was accepted and kept is with his loop then
	r.letGoNotes()
	r.eachWait((*loop).letGo)
}

// letGoNotes is before the connections are let go: who asks for counts meanwhile forgets
// generations and sockets that have none here, and the next process needs their notes.
func (r *Relay) letGoNotes() {
	r.noting.Lock()
	defer r.noting.Unlock()
	r.vaults.Store(nil)
	for u := range r.noted {
		u.note.Store(noNote)
	}
	clear(r.noted)
	r.letGoTallies()
}

func (l *loop) letGo() {
	if l.vault == nil {
		return
	}
	l.pairs.each(func(p *pair) {
		if p.kept != nil {
			l.forget(p)
			return
		}
		l.counters.unkept.Add(-1) // a kill resets it still
	})
	for kind := range l.shared.pipes {
		for _, one := range l.shared.pipes[kind].free {
			closeFD(one.fd)
		}
	}
	l.shared, l.vault, l.ready = memory{}, nil, ready{}
	l.publish()
	l.total = nil
}

// forget drops a pair without ending it: its sockets live on in the vault.
func (l *loop) forget(p *pair) {
	l.clearDeadline(p)
	p.noteIdle(l.now)
	for i := range p.side {
		if fd := p.flow[i].pipe.fd; fd >= 0 {
			closeFD(fd)
		}
		l.closeSide(&p.side[i])
	}
	l.remove(p)
}
