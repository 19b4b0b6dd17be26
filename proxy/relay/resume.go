package relay

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/upstream"
)

// resumeOpen goes on with a connection in the middle of its streams.
func (l *loop) resumeOpen(p *pair, left *leftovers) error {
	for i := range p.side {
		s := &p.side[i]
		if s.fd < 0 {
			return errors.New("one of its sockets is missing")
		}
		s.noteReset()
	}
	l.settleDeath(p) // also where a former process has settled it otherwise, or has not come to it
	p.headerOut = max(0, p.kept.flow[client].beyond-1)
	for i := range p.flow {
		if err := l.resumeFlow(p, i, left); err != nil {
			return err
		}
	}
	for i := range p.side {
		p.side[i].noteReset() // to look at the counters eats the error of one that came meanwhile
	}
	p.resumeIdle(l.now)
	p.phase = open
	p.endpoint = l.endpointOf(p)
	for i := range p.side {
		if errno := l.registerSide(p, i); errno != 0 {
			return errno
		}
	}
	l.queueRestored(p)
	return nil
}

// noteReset notes that a TCP side was reset, when its error may have been eaten.
func (s *side) noteReset() {
	s.broken = s.broken || s.tcp && tcpClosed(s.fd) && !finReceived(s.fd)
}

// queueRestored lets a restored pair go on, or end as its peers have ended it.
func (l *loop) queueRestored(p *pair) {
	for i := range p.side {
		if p.side[i].broken {
			l.sideReset(p, i)
			return
		}
	}
	if p.flow[client].state == done && p.flow[server].state == done {
		l.end(p, Closed)
		return
	}
	l.requeue(p)
}

// endpointOf finds the server that a pair is connected to, if the pool has it still.
func (l *loop) endpointOf(p *pair) *upstream.Endpoint {
	e := p.use.service.Pool.At(peerSockaddr(p.side[server].fd))
	if e != nil {
		e.Opened()
	}
	return e
}

// resumeFlow finds out what a flow owes. After an error its pipe is nobody's: others must
// not get what is in it.
func (l *loop) resumeFlow(p *pair, from int, left *leftovers) error {
	err := l.findOwed(p, from, left)
	if err != nil {
		l.dropPipe(p, &p.flow[from])
	}
	return err
}

func (l *loop) findOwed(p *pair, from int, left *leftovers) error {
	f, kept, src, dst := &p.flow[from], &p.kept.flow[from], &p.side[from], &p.side[1-from]
	if n := atomic.LoadUint32(&kept.pipe); n != 0 {
		one, ok := left.pipes.take(n - 1)
		if !ok {
			return errors.New("its pipe is missing")
		}
		f.pipe = one
		l.shared.pipes[one.kind].made++
	}
	at, known, err := taken(kept, src)
	switch {
	case err != nil:
		return err
	case p.kept.has(flagDone, from):
		f.state, f.moved = done, at
		shutdown(dst.fd, unix.SHUT_WR)
		l.dropPipe(p, f)
		return nil
	case dst.broken:
		f.state, f.moved = dead, at
		l.dropPipe(p, f)
		return nil
	}
	if f.pipe.fd >= 0 {
		return l.resumePipe(p, from, at, left)
	}
	if !known {
		return errors.New("it is not known what was read from it")
	}
	f.moved = at
	sent, err := sentTo(kept, dst, at)
	if err != nil {
		return err
	}
	return l.resumeBuffer(p, from, at, sent, left)
}

// sentTo is the position up to which the destination was written, after its source was read
// up to at. Of a Unix socket it was noted, but for the moment of a write.
func sentTo(kept *slotFlow, dst *side, at int64) (int64, error) {
	if dst.tcp {
		n, err := written(dst.fd)
		return n - kept.beyond, err
	}
	switch told := atomic.LoadInt64(&kept.told); {
	case told > 0:
		return told - 1, nil
	case at != kept.start:
		return 0, errors.New("it is not known what was written to a Unix socket")
	}
	return at, nil
}

// taken is the position up to which the source was read, if that is known.
func taken(kept *slotFlow, src *side) (at int64, known bool, err error) {
	if src.tcp {
		n, err := consumed(src.fd)
		return n - kept.before, true, err
	}
	n, known := counted(src.fd)
	zero := kept.zero
	if kept.next != 0 && n == 0 {
		zero = kept.next // the counter was set, and that was not noted any more
	}
	return zero + n, known, nil
}

// resumePipe goes on with a flow whose bytes are in a pipe.
func (l *loop) resumePipe(p *pair, from int, at int64, left *leftovers) error {
	f, kept, src, dst := &p.flow[from], &p.kept.flow[from], &p.side[from], &p.side[1-from]
	q, err := pending(f.pipe.fd)
	if err != nil {
		return err
	}
	f.piped = uint32(q)
	if dst.tcp {
		sent, err := sentTo(kept, dst, at)
		if err != nil {
			return err
		}
		if !src.tcp {
			at = sent + q
		}
		if at-sent != q {
			return fmt.Errorf("%d bytes were read, %d written, %d are in the pipe", at, sent, q)
		}
	}
	f.moved = at
	switch {
	case kept.buffer != poured && at-kept.start > q:
		return l.resumePour(p, from, at, left)
	case q > 0:
		atomic.StoreUint32(&kept.buffer, poured) // before anything moves: they are not in the buffer any more
	}
	if !src.tcp {
		kept.recount(src.fd, at) // where it was used up, what the statistics say begins here
	}
	if q == 0 {
		l.releasePipe(p, f)
	}
	return nil
}

// resumePour goes on with a flow whose bytes were on their way from a buffer into a pipe:
// all are in the buffer, whatever the pipe has taken.
func (l *loop) resumePour(p *pair, from int, at int64, left *leftovers) error {
	f := &p.flow[from]
	if f.piped > 0 {
		l.dropPipe(p, f)
	}
	if err := l.resumeBuffer(p, from, at, p.kept.flow[from].start, left); err != nil {
		return err
	}
	if f.pipe.fd >= 0 {
		l.pour(p, from)
	}
	return nil
}

// resumeBuffer goes on with a flow whose bytes are in the buffer that the other process
// has read them to.
func (l *loop) resumeBuffer(p *pair, from int, at, sent int64, left *leftovers) error {
	f, kept := &p.flow[from], &p.kept.flow[from]
	if kept.start > sent || sent > at || uint64(at-kept.start) > bufferSize { // the difference of two garbled ones may be below zero
		return fmt.Errorf("%d bytes were read, %d written, and its buffer begins at %d", at, sent, kept.start)
	}
	if sent == at {
		return nil
	}
	slab, ok := left.buffers.take(l.vault, kept.buffer)
	if !ok {
		return fmt.Errorf("there is no buffer %d", kept.buffer)
	}
	l.shared.buffers.hold(kept.buffer/slabBuffers, slab)
	f.buf, f.off, f.end = int32(kept.buffer), uint32(sent-kept.start), uint32(at-kept.start)
	return nil
}

// dropPipe gives up a pipe with all that is in it.
func (l *loop) dropPipe(p *pair, f *flow) {
	if f.pipe.fd >= 0 {
		atomic.StoreUint32(&p.kept.flow[p.from(f)].pipe, 0)
		l.shared.pipes[f.pipe.kind].remove(f.pipe)
		f.pipe, f.piped = noPipe, 0
	}
}
