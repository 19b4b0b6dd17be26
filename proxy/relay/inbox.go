package relay

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// inbox is how other threads reach a loop.
type inbox struct {
	any    atomic.Bool // something lies in it
	mu     sync.Mutex
	closed bool
	calls  []func(*loop)
	in     []arrival
}

// call runs fn in the loop's thread, soon; false when the loop has ended.
func (l *loop) call(fn func(*loop)) bool {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	if l.inbox.closed {
		return false
	}
	l.inbox.calls = append(l.inbox.calls, fn)
	l.wake()
	return true
}

// give hands an accepted connection to the loop; false when the loop has ended.
func (l *loop) give(a arrival) bool {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	if l.inbox.closed {
		return false
	}
	l.inbox.in = append(l.inbox.in, a)
	l.wake()
	return true
}

// wake ends the loop's wait. The inbox is locked and open, so the descriptor is too.
func (l *loop) wake() {
	if !l.inbox.any.Swap(true) {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		_, _ = unix.Write(l.wakefd, one[:])
	}
}

// run does what lies in the inbox.
func (in *inbox) run(l *loop) {
	in.any.Store(false)
	in.mu.Lock()
	calls, arrived := in.calls, in.in
	in.calls, in.in = nil, nil
	in.mu.Unlock()
	for _, a := range arrived {
		l.begin(a)
	}
	for _, fn := range calls {
		fn(l)
	}
}

// close takes nothing more in, ends the connections nobody has begun, and does
// the calls that wait: their callers may too.
func (in *inbox) close(l *loop) {
	in.mu.Lock()
	in.closed = true
	in.mu.Unlock()
	for _, a := range in.in {
		l.refuse(a)
	}
	for _, fn := range in.calls {
		fn(l)
	}
}
