package relay

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// needsPipe tells whether a flow must go through a pipe: what a Unix socket was given
// is not counted by the kernel, and a pipe tells what is left.
func (p *pair) needsPipe(from int) bool { return p.kept != nil && !p.side[1-from].tcp }

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

// fill writes a text into an empty pipe.
func fill(pipe int32, text []byte) bool {
	n, err := unix.Write(int(pipe), text)
	return err == nil && n == len(text)
}
