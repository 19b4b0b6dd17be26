package relay

import "golang.org/x/sys/unix"

const (
	// burst is how many bytes one direction moves before the others of its loop
	// get their turn.
	burst = 256 << 10
	// bulkAfter is how many reads in a row must fill a buffer before a direction
	// goes through a pipe.
	bulkAfter = 4
)

// result of one step of a flow.
type result uint8

const (
	progressed result = iota
	blocked           // the socket takes or gives nothing now; an event will tell
	failed            // the socket is broken
	ended             // the source gave end of file
	starved           // no memory for a buffer
)

// pump moves bytes from one side of an open pair to the other until one of the
// two would block, the stream ends, or the turn is used up.
func (l *loop) pump(p *pair, from int) {
	f := &p.flow[from]
	src, dst := &p.side[from], &p.side[1-from]
	for budget := burst; ; {
		for f.owes() {
			r := l.write(p, f, dst)
			if r == failed {
				l.sideReset(p, 1-from)
				return
			}
			if r == blocked {
				return
			}
		}
		if f.state != flowing {
			l.finishFlow(p, from)
			return
		}
		if !src.readable {
			l.releasePipe(p, f)
			return
		}
		if budget <= 0 {
			l.requeue(p)
			return
		}
		n, r := l.read(p, from)
		switch r {
		case progressed:
			p.active = l.now
			f.moved += int64(n)
			budget -= n
			if from == client {
				l.counters.in += int64(n)
			} else {
				l.counters.out += int64(n)
			}
		case blocked:
			l.releasePipe(p, f)
			return
		case ended:
			f.state = ending
		case failed:
			src.broken, src.eaten = true, true // also for the next process, which reads again
			f.state = cut
			p.noteFlags()
		case starved:
			l.reset(p, OutOfResources)
			return
		}
	}
}

// pumpBoth pumps both ways, the second one only if the pair is still open then.
func (l *loop) pumpBoth(p *pair) {
	serial := p.serial
	l.pump(p, client)
	if p.serial == serial && p.phase == open {
		l.pump(p, server)
	}
}

// read reads once from the source, into the buffer or the pipe.
func (l *loop) read(p *pair, from int) (int, result) {
	f, src := &p.flow[from], &p.side[from]
	if f.pipe.fd < 0 && (f.full >= bulkAfter || p.needsPipe(from)) {
		l.takePipe(p, f)
	}
	if f.pipe.fd >= 0 && f.pipe.kind == wide {
		n, r := l.spliceIn(f, src)
		switch {
		case r == failed && hasUnread(src.fd):
			// It has stopped at urgent data, and eaten the error of a reset. What had come
			// before that is to be read.
			src.broken, src.eaten, src.hangup = true, true, true
			p.noteFlags()
			l.setDeadline(p, l.now+int64(flushPatience))
		case r == progressed, r == failed, r == blocked && !src.hangup:
			return n, r
		}
		// A splice stops at urgent data as if there was nothing more, and when a FIN has
		// come as if that was all; recv reads it.
		src.readable = true
		if !p.needsPipe(from) {
			l.releasePipe(p, f)
		}
	}
	if !l.takeBuffer(p, from) {
		return 0, starved
	}
	b := l.memoryOf(p).buffers.bytes(f.buf)
	if f.pipe.fd >= 0 && f.pipe.kind == slim {
		b = b[:slimSize]
	}
	n, errno := src.recv(b)
	if errno != 0 || n == 0 {
		l.releaseBuffer(p, f)
		return 0, l.noBytes(src, errno)
	}
	f.off, f.end = 0, uint32(n)
	if f.pipe.fd >= 0 {
		l.pour(p, from)
	}
	if n == len(b) {
		f.full++
		return n, progressed
	}
	f.full = 0
	// A short read has emptied the queue (epoll(7)), but for what hangup tells, and
	// on a Unix socket one stops behind descriptors that the peer has attached.
	src.readable = src.hangup || !src.tcp
	return n, progressed
}

// recv reads from a side.
func (s *side) recv(b []byte) (int, unix.Errno) {
	if s.tcp && s.hangup {
		return recvUrgent(s.fd, b)
	}
	return recv(s.fd, b, 0)
}

// noBytes tells what a read without bytes means.
func (l *loop) noBytes(src *side, errno unix.Errno) result {
	switch {
	case errno == unix.EAGAIN:
		src.readable = false
		return blocked
	case errno != 0:
		return failed
	case src.broken && (src.eaten || src.tcp && !finReceived(src.fd)):
		return failed // not the end: the error was eaten by the call that found it
	}
	src.readable = false
	return ended
}

// write writes to the destination once.
func (l *loop) write(p *pair, f *flow, dst *side) result {
	if !dst.writable {
		return blocked
	}
	if f.piped > 0 {
		return l.spliceOut(p, f, dst)
	}
	b := l.memoryOf(p).buffers.bytes(f.buf)[f.off:f.end]
	p.noteWriting(f, dst)
	n, errno := send(dst.fd, b)
	if errno != 0 {
		p.noteWritten(f, dst)
		return refused(dst, errno)
	}
	p.active = l.now
	f.off += uint32(n)
	p.noteWritten(f, dst)
	if n < len(b) {
		dst.writable = false
		return blocked
	}
	l.releaseBuffer(p, f)
	return progressed
}

// refused tells what an error of a write means. EPIPE only says that a write is not
// possible: the peer has ended, and what it sent may still be read to its true end.
// Any other error was pending on the socket and is eaten now.
func refused(dst *side, errno unix.Errno) result {
	if errno != unix.EAGAIN {
		dst.eaten = dst.eaten || errno != unix.EPIPE
		return failed
	}
	dst.writable = false
	return blocked
}

// takeBuffer gives a direction that owes nothing a buffer.
func (l *loop) takeBuffer(p *pair, from int) bool {
	f := &p.flow[from]
	buf, err := l.memoryOf(p).buffers.get()
	if err != nil {
		l.relay.note(event{kind: noMemory, err: err})
		return false
	}
	f.buf = buf
	if p.kept != nil {
		l.noteBuffer(p, from)
	}
	return true
}

// takePipe gives a direction that owes nothing a pipe, if there is one.
func (l *loop) takePipe(p *pair, f *flow) {
	f.full = 0
	m := l.memoryOf(p)
	if p.needsPipe(p.from(f)) {
		f.pipe = m.pipes[wide].get()
		if f.pipe.fd < 0 {
			f.pipe = m.pipes[slim].get()
		}
	} else {
		f.pipe = m.pipes[wide].getForSpeed()
	}
	if f.pipe.fd >= 0 {
		p.notePipe(f)
	}
}

// releasePipe gives back what a direction needs only while bytes move.
func (l *loop) releasePipe(p *pair, f *flow) {
	if f.pipe.fd >= 0 && f.piped == 0 {
		used := f.pipe
		f.pipe = noPipe
		p.notePipe(f)
		l.memoryOf(p).pipes[used.kind].put(used)
	}
}

func (l *loop) releaseBuffer(p *pair, f *flow) {
	if f.buf != noBuffer {
		l.memoryOf(p).buffers.put(f.buf)
		f.buf, f.off, f.end = noBuffer, 0, 0
	}
}

// discardOwed forgets what a direction owes.
func (l *loop) discardOwed(p *pair, f *flow) {
	l.releaseBuffer(p, f)
	if used := f.pipe; used.fd >= 0 {
		f.pipe = noPipe
		p.notePipe(f) // first: another connection may have it next
		l.memoryOf(p).pipes[used.kind].discard(used, f.piped)
		f.piped = 0
	}
}
