package daemon

import (
	"context"
	"time"
)

// watchdogPart is the part of the watchdog's interval that a ping is due after, and
// that the event loops have to show that they turn. sd_watchdog_enabled(3) advises
// half of the interval at most.
const watchdogPart = 4

// watchdog tells the service manager that the instance works, until ctx ends: not that
// this goroutine runs, but that every event loop turns. A manager that is not told for
// the whole interval kills and restarts the service.
func (d *daemon) watchdog(ctx context.Context, interval time.Duration) {
	due := time.NewTicker(interval / watchdogPart)
	defer due.Stop()
	for {
		turn, cancel := context.WithTimeout(ctx, interval/watchdogPart)
		err := d.engine.Turn(turn)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.log.Error("an event loop does not turn: the watchdog is not told", "for", interval/watchdogPart)
		default:
			d.tell(d.notify.Watchdog)
		}
		select {
		case <-due.C:
		case <-ctx.Done():
			return
		}
	}
}
