package relay

import (
	"math"
	"sync/atomic"
)

// noNote is the note of a use of which the next process would not know.
const noNote = math.MaxUint32

// keepArrival leaves a client that was just accepted in the vault. Before that the
// end of this process ends the client's connection; it is the only such moment.
func (l *loop) keepArrival(a *arrival) {
	if a.slot == nil {
		return
	}
	a.slot.peer.set(a.peer)
	a.slot.headed = 0
	if a.headed {
		a.slot.headed = 1
	}
	if a.use.socket.mptcp && speaksMPTCP(a.client) {
		a.slot = nil // the slot stays for the next one
		return
	}
	if !l.vault.Keep(a.number, a.client, a.upstream) {
		a.slot = nil
	}
	l.ready.used()
}

// rekeep keeps a pair with another socket for its server, which is not connected yet.
// former may be closed then.
func (l *loop) rekeep(p *pair) {
	if p.resets {
		p.resetAtDeath(true) // the new socket too
	}
	if p.kept == nil {
		return
	}
	former, number := p.kept, p.number
	p.kept = nil
	if another, memory, ok := l.vault.Take(); ok {
		s := slotIn(memory)
		*s = *former
		if l.vault.Keep(another, p.side[client].fd, p.side[server].fd) {
			p.kept, p.number = s, another
		}
	}
	if p.kept == nil {
		l.beginUnkept(p)
	}
	l.vault.Drop(number) // not before: two may be found, but not none
}

// unkeep takes a pair that ends out of the vault.
func (l *loop) unkeep(p *pair) {
	switch {
	case p.kept != nil:
		l.vault.Drop(p.number)
		p.kept = nil
	case l.vault != nil:
		l.counters.unkept.Add(-1)
	}
	if p.resets {
		p.resetAtDeath(false)
	}
}

// keepOpen notes that both sides are connected, before the first byte moves.
func (l *loop) keepOpen(p *pair) {
	if p.kept == nil {
		return
	}
	for i := range p.side {
		if !p.side[i].tcp {
			setCounter(p.side[i].fd)
		}
		f := &p.kept.flow[i]
		f.before, f.beyond = p.uncounted(i)
	}
	p.kept.setState(slotOpen)
}

// uncounted is what the kernel counts of a flow that is not part of the stream: bytes
// that its source gave and that its destination took. A socket that connected has sent
// a SYN, which counts one; one that was accepted has not (tcp_ack and
// tcp_create_openreq_child of the kernel).
func (p *pair) uncounted(from int) (before, beyond int64) {
	if from == server {
		return 0, 0
	}
	const syn = 1
	return p.headerIn, syn + p.headerOut
}

func (p *pair) noteState(state slotState) {
	if p.kept != nil {
		p.kept.setState(state)
	}
}

func (p *pair) noteFlags() {
	if p.kept != nil {
		p.kept.setFlags(p)
	}
}

// noteHeader notes the PROXY header of a client before it is taken.
func (p *pair) noteHeader(size int) {
	p.headerIn = int64(size)
	if p.kept != nil {
		p.kept.peer.set(p.peer)
		p.kept.local.set(p.local)
		atomic.StoreInt64(&p.kept.flow[client].before, p.headerIn)
	}
}
