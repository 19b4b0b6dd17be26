package relay

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// needsPipe tells whether a flow must go through a pipe: what a Unix socket was given
// is not counted by the kernel, and a pipe tells what is left.
func (p *pair) needsPipe(from int) bool { return p.kept != nil && !p.side[1-from].tcp }

// pour moves what was read into the buffer of a flow on into its pipe, which is empty. If
// that does not take it the flow goes on without a pipe.
func (l *loop) pour(p *pair, from int) {
	f := &p.flow[from]
	if l.fill(p, f, l.memoryOf(p).buffers.bytes(f.buf)[:f.end]) {
		atomic.StoreUint32(&p.kept.flow[from].buffer, poured)
		l.releaseBuffer(p, f)
	}
}

// fill writes a text into the empty pipe of a flow. The kernel may have memory for a part
// of it only: such a pipe is given up, or the next connection would get that part.
func (l *loop) fill(p *pair, f *flow, text []byte) bool {
	n, err := unix.Write(int(f.pipe.fd), text)
	if err != nil || n < len(text) {
		l.dropPipe(p, f)
		return false
	}
	f.piped = uint32(n)
	return true
}
