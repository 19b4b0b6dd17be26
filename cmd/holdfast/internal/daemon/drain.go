package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// The service manager kills what takes longer to stop than TimeoutStopSec=, unless
// it is told time and again that the stop goes on (EXTEND_TIMEOUT_USEC= in
// sd_notify(3)).
const (
	extendEvery = 10 * time.Second
	extendBy    = 30 * time.Second
)

// Drain ends the connections that are there, over drain_timeout. It may be called from
// any goroutine.
func (d *daemon) Drain(ctx context.Context) (status.Drain, error) {
	var limit config.Timeout
	if !d.callWithin(ctx, func() { limit = d.current.config.Global.DrainTimeout }) {
		return status.Drain{}, errStopping
	}
	d.log.Info("draining, as asked for", "over", spread(limit))
	n, err := d.engine.Drain(ctx, spread(limit))
	if d.isStopping() {
		return status.Drain{}, errStopping // they may go on elsewhere
	}
	d.log.Info("drained", "connections", n)
	return status.Drain{Connections: n}, err
}

// drainConnections ends the engine. A replacement that has been slow may have the
// connections that are left as long as it goes on.
func (d *daemon) drainConnections(drain context.Context) {
	how := proxy.Ending{Leave: d.handsOn.Load(), Spread: d.offering.over}
	go func() {
		defer close(d.drained)
		d.engine.Stop(drain, how)
	}()
	for {
		select {
		case fn := <-d.lastCalls:
			fn()
		case <-d.drained:
			return
		}
	}
}

// finish gives connections their time, and takes from the holder then what nobody goes on
// with, for which it may take long. All the while the service manager is asked for more
// time. A further stop signal cuts the connections short.
func (d *daemon) finish(limit config.Timeout, further <-chan string) {
	drain, end := d.drain(limit, further)
	defer end()
	d.sockets.closeIdle()
	d.drainConnections(drain)
	closeHeld(d.offering.left)
	if d.handsOn.Load() {
		_ = d.live.close() // what the holder has may be another process's by now
		return
	}
	d.live.end()
	d.keep.clear()
}

// drain lets connections go on for as long as limit says, or until a further stop
// signal. Time is up when ctx ends. The service manager is asked for more time until
// end is called, which also ends the time, and waits for the goroutines.
func (d *daemon) drain(limit config.Timeout, further <-chan string) (ctx context.Context, end func()) {
	ctx, cancel := timeFor(limit)
	stopping, stopped := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { d.cutShort(ctx, cancel, further) })
	watching.Go(func() { d.extendStop(stopping, ctx) })
	return ctx, func() {
		stopped()
		cancel()
		watching.Wait()
	}
}

func timeFor(limit config.Timeout) (context.Context, context.CancelFunc) {
	if limit.Never {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), limit.Duration)
}

// cutShort ends the drain at a further stop signal. It ends with ctx.
func (d *daemon) cutShort(ctx context.Context, cancel context.CancelFunc, further <-chan string) {
	select {
	case name := <-further:
		d.log.Info("stopping at once", "signal", name)
		cancel()
	case <-ctx.Done():
	}
}

// extendStop asks the service manager for more time, at once and then time and again,
// until ctx ends, and tells it how the stop stands, also when the time of connections is
// up: drain ends then.
func (d *daemon) extendStop(ctx, drain context.Context) {
	again := time.NewTicker(d.extendEvery)
	defer again.Stop()
	up := drain.Done()
	for ctx.Err() == nil {
		d.tell(func() error { return d.notify.ExtendTimeout(extendBy) })
		line := d.stopLine(drain)
		d.tell(func() error { return d.notify.Status(line) })
		select {
		case <-again.C:
		case <-up:
			up = nil
		case <-ctx.Done():
		}
	}
}
