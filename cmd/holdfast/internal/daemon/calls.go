package daemon

import "context"

// call runs fn in the goroutine of run, after those before it, and waits for it. It
// tells whether fn was run: once the instance stops it is not.
func (d *daemon) call(fn func()) bool { return d.callWithin(context.Background(), fn) }

// callWithin is call unless ctx ends before fn begins.
func (d *daemon) callWithin(ctx context.Context, fn func()) bool {
	done := make(chan struct{})
	select {
	case d.calls <- func() { defer close(done); fn() }:
		<-done
		return true
	case <-d.stopping:
	case <-ctx.Done():
	}
	return false
}

// callLast is call while this instance drains its connections.
func (d *daemon) callLast(fn func()) bool {
	done := make(chan struct{})
	select {
	case d.lastCalls <- func() { defer close(done); fn() }:
		<-done
		return true
	case <-d.drained:
		return false
	}
}
