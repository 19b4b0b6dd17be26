package relay

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// inbox is how other goroutines reach a loop.
type inbox struct {
	pending atomic.Bool // something lies in it
	mu      sync.Mutex
	closed  bool
	calls   []func(*loop)
	arrived []arrival
}

// post runs fn in the loop's goroutine, soon; false when the loop has ended.
func (l *loop) post(fn func(*loop)) bool {
	return l.put(func(in *inbox) { in.calls = append(in.calls, fn) })
}

// enqueue hands an accepted connection to the loop; false when the loop has ended.
func (l *loop) enqueue(a arrival) bool {
	return l.put(func(in *inbox) { in.arrived = append(in.arrived, a) })
}

// put changes the inbox and ends the loop's wait.
func (l *loop) put(change func(*inbox)) bool {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	if l.inbox.closed {
		return false
	}
	change(&l.inbox)
	l.wake()
	return true
}

// wake ends the loop's wait. The inbox is locked and open, so the descriptor is too.
func (l *loop) wake() {
	if !l.inbox.pending.Swap(true) {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		_, _ = unix.Write(l.wakefd, one[:])
	}
}

// run does what lies in the inbox.
func (in *inbox) run(l *loop) {
	in.pending.Store(false)
	in.mu.Lock()
	calls, arrived := in.calls, in.arrived
	in.calls, in.arrived = nil, nil
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
	for _, a := range in.arrived {
		l.refuse(a)
	}
	for _, fn := range in.calls {
		fn(l)
	}
}
