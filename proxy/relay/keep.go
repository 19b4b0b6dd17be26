package relay

import (
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ready is a slot of the vault for the next client, so that between accept4 and Keep
// nothing is left to be done.
type ready struct {
	use    *use // by which the slot is filled; nil = there is none
	slot   *slot
	number uint32
}

// take gives a slot for a client who is accepted by a use, or nil where there is none.
func (r *ready) take(l *loop, by *use) (*slot, uint32) {
	note := by.note.Load()
	if l.vault == nil || note == noNote || !l.relay.keeping.Load() {
		return nil, 0
	}
	if r.use == nil {
		number, memory, ok := l.vault.Take()
		if !ok {
			return nil, 0
		}
		r.slot, r.number = slotIn(memory), number
	}
	r.use = by
	r.slot.note = note
	r.slot.opened = l.relay.wall(l.now)
	return r.slot, r.number
}

// used notes that the slot has become a connection's, or is free again.
func (r *ready) used() { *r = ready{} }

func (r *ready) giveUp(l *loop) {
	if r.use != nil {
		l.vault.Drop(r.number)
		r.used()
	}
}

// keepArrival leaves a client that was just accepted in the vault. Before that the
// end of this process ends the client's connection; it is the only such moment.
func (l *loop) keepArrival(a *arrival) {
	if a.slot == nil {
		return
	}
	a.slot.peer.set(a.peer)
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
		l.counters.unkept.Add(1)
	}
	l.vault.Drop(number) // not before: two may be found, but not none
}

// unkeep takes a pair out of the vault.
func (l *loop) unkeep(p *pair) {
	switch {
	case p.kept != nil:
		l.vault.Drop(p.number)
		p.kept = nil
	case l.vault != nil:
		l.counters.unkept.Add(-1)
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

// needsPipe tells whether a flow must go through a pipe: what a Unix socket was given
// is not counted by the kernel, and a pipe tells what is left.
func (p *pair) needsPipe(from int) bool { return p.kept != nil && !p.side[1-from].tcp }

// position is how much of a flow was taken from its source and is not owed any more:
// nothing is owed when it is asked for. A PROXY header is at a position below zero.
func (p *pair) position(from int) int64 {
	if from == client && p.kept.state == slotDialing {
		return -p.headerOut
	}
	return p.flow[from].moved
}

// noteBuffer notes a buffer before anything is read into it.
func (l *loop) noteBuffer(p *pair, from int) {
	f, kept := &p.flow[from], &p.kept.flow[from]
	p.noteStart(from)
	atomic.StoreUint32(&kept.buffer, l.shared.buffers.number(f.buf))
}

// notePipe notes which pipe a flow has from now on; nothing is owed.
func (p *pair) notePipe(f *flow) {
	if p.kept == nil {
		return
	}
	from := p.from(f)
	p.noteStart(from)
	var pipe uint32
	if f.pipe.fd >= 0 {
		pipe = f.pipe.slot + 1
		atomic.StoreUint32(&p.kept.flow[from].buffer, poured)
	}
	atomic.StoreUint32(&p.kept.flow[from].pipe, pipe)
}

// noteStart notes where a flow that owes nothing is.
func (p *pair) noteStart(from int) {
	kept, at := &p.kept.flow[from], p.position(from)
	if !p.side[from].tcp && at-kept.zero > mostCounted {
		kept.recount(p.side[from].fd, at)
	}
	atomic.StoreInt64(&kept.start, at)
}

// recount sets the counter of a Unix source anew, at a position. Who is killed between
// the steps can tell by the counter whether it was set.
func (f *slotFlow) recount(fd int32, at int64) {
	atomic.StoreInt64(&f.next, at)
	setCounter(fd)
	atomic.StoreInt64(&f.zero, at)
	atomic.StoreInt64(&f.next, 0)
}

// noteWritten notes that all of a buffer was written, which nothing else tells of a
// Unix socket. Who is killed before that cannot know what is owed.
func (p *pair) noteWritten(f *flow, dst *side) {
	if p.kept != nil && !dst.tcp {
		atomic.StoreInt64(&p.kept.flow[p.from(f)].start, f.moved)
	}
}

// pour moves what was read into the buffer of a flow on into its pipe, which is empty. It
// is false when that does not take it.
func (l *loop) pour(p *pair, from int) bool {
	f := &p.flow[from]
	if !fill(f.pipe.fd, l.memoryOf(p).buffers.bytes(f.buf)[:f.end]) {
		return false
	}
	f.piped = f.end
	atomic.StoreUint32(&p.kept.flow[from].buffer, poured)
	l.releaseBuffer(p, f)
	return true
}

// poured is the buffer of a flow whose bytes are all in its pipe. With another one, and
// the pipe empty, what was read is in that buffer still.
const poured = math.MaxUint32

// from is the side from which a flow comes.
func (p *pair) from(f *flow) int {
	if f == &p.flow[server] {
		return server
	}
	return client
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

// mostLate is how many connections a loop keeps late in one go.
const mostLate = 64

// keepLate keeps connections for which there was no room when they came.
func (l *loop) keepLate() {
	if l.vault == nil || l.counters.unkept.Load() == 0 || !l.relay.keeping.Load() {
		return
	}
	for _, w := range l.watches {
		if w != nil {
			l.relay.describe(w.socket.current.Load()) // there may have been no room for its note, either
		}
	}
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

// canKeep tells whether a pair that is not kept can be: both sides are connected, and
// nothing is owed.
func (l *loop) canKeep(p *pair) bool {
	if p.kept != nil || p.phase != open || p.use.note.Load() == noNote || p.use.socket.mptcp {
		return false
	}
	for i := range p.side {
		l.releasePipe(p, &p.flow[i])
		if f := &p.flow[i]; f.owes() || f.state == ending || p.side[i].broken {
			return false
		}
	}
	return true
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
	l.counters.unkept.Add(-1)
	return true
}

// noNote is the note of a use of which the next process would not know.
const noNote = math.MaxUint32

// fill writes a text into an empty pipe.
func fill(pipe int32, text []byte) bool {
	n, err := unix.Write(int(pipe), text)
	return err == nil && n == len(text)
}
