package relay

// mostLate is how many connections a loop keeps late in one go.
const mostLate = 64

// keepLate keeps connections for which there was no room when they came.
func (l *loop) keepLate() {
	if l.vault == nil || l.counters.unkept.Load() == 0 || !l.relay.keeping.Load() {
		return
	}
	l.describeUses() // there may have been no room for their notes, either
	l.keepUnkept(mostLate)
}

// keepUnkept keeps so many of the connections that are not kept, at most.
func (l *loop) keepUnkept(most int) {
	l.pairs.each(func(p *pair) {
		if most > 0 && l.canKeep(p) {
			most--
			if !l.keepNow(p) {
				most = 0
			}
		}
	})
}

// canKeep tells whether a pair that is not kept can be: both sides are connected, nothing
// is owed, and its use is noted. There may have been no vault when that was a socket's.
func (l *loop) canKeep(p *pair) bool {
	if p.kept != nil || p.phase != open || p.use.socket.mptcp {
		return false
	}
	for i := range p.side {
		l.releasePipe(p, &p.flow[i])
		if f := &p.flow[i]; f.owes() || f.state == ending || p.side[i].broken {
			return false
		}
	}
	return p.use.note.Load() != noNote || l.relay.describe(p.use)
}

// keepNow keeps an open pair that owes nothing.
func (l *loop) keepNow(p *pair) bool {
	number, memory, ok := l.vault.Take()
	if !ok {
		return false
	}
	s := slotIn(memory)
	s.note, s.opened = p.use.note.Load(), l.relay.wall(p.opened)
	s.peer.set(p.peer)
	s.local.set(p.local)
	s.setFlags(p)
	for i := range p.flow {
		f := &s.flow[i]
		f.start, f.zero = p.flow[i].moved, p.flow[i].moved
	}
	p.kept = s
	l.keepOpen(p)
	if !l.vault.Keep(number, p.side[client].fd, p.side[server].fd) {
		p.kept = nil
		return false
	}
	p.number = number
	l.endUnkept(p) // not before: a kill in between would end in order what nobody goes on with
	return true
}
