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

// drain lets connections go on for as long as limit says, or until a further stop
// signal. Time is up when ctx ends. The service manager is asked for more time until
// end is called: after connections, who keeps them may take long. end also ends the
// time, and waits for the goroutines.
func (d *daemon) drain(limit config.Timeout, further <-chan string) (ctx context.Context, end func()) {
	ctx, cancel := timeFor(limit)
	stopping, stopped := context.WithCancel(context.Background())
	deadline, _ := ctx.Deadline()
	var watching sync.WaitGroup
	watching.Go(func() { d.cutShort(ctx, cancel, further) })
	watching.Go(func() { d.extendStop(stopping, deadline, extendEvery) })
	return ctx, func() {
		cancel()
		stopped()
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

// extendStop asks the service manager for more time, at once and then time and
// again, until ctx ends. deadline is that of the connections, zero if there is none.
func (d *daemon) extendStop(ctx context.Context, deadline time.Time, every time.Duration) {
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		d.tell(func() error { return d.notify.ExtendTimeout(extendBy) })
		line := d.stopLine(deadline)
		d.tell(func() error { return d.notify.Status(line) })
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}
