package relay

import (
	"math"
	"sync/atomic"
)

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
	atomic.StoreUint32(&kept.buffer, uint32(f.buf))
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
	if !p.side[from].tcp && at-kept.zero > MostCounted {
		kept.recount(p.side[from].fd, at)
	}
	if !p.side[1-from].tcp {
		atomic.StoreInt64(&kept.told, at+1)
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

// noteWriting notes that a Unix socket is being written to. Nothing tells how much of it
// is: who is killed until that is noted leaves a flow that cannot go on.
func (p *pair) noteWriting(f *flow, dst *side) {
	if p.kept != nil && !dst.tcp {
		atomic.StoreInt64(&p.kept.flow[p.from(f)].told, 0)
	}
}

// noteWritten notes how much a Unix socket was written: of a buffer up to off, or all that
// has moved.
func (p *pair) noteWritten(f *flow, dst *side) {
	if p.kept != nil && !dst.tcp {
		kept := &p.kept.flow[p.from(f)]
		atomic.StoreInt64(&kept.told, f.moved-int64(f.end-f.off)+1)
	}
}

// from is the side from which a flow comes.
func (p *pair) from(f *flow) int {
	if f == &p.flow[server] {
		return server
	}
	return client
}

// poured is the buffer of a flow whose bytes are all in its pipe. With another one, and
// the pipe empty, what was read is in that buffer still.
const poured = math.MaxUint32
