package proxy

import (
	"context"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/relay"
)

// Drain ends the connections that are there now, a share every 200 ms, evenly over a
// time; 0 = at once. Others are accepted meanwhile, and stay. It returns how many there
// were when the last one has ended, or ctx's error with what was ended by then.
func (e *Engine) Drain(ctx context.Context, over time.Duration) (int64, error) {
	these := relay.Selection{Before: time.Now()}
	first := e.relay.Count(these)
	if over == 0 {
		e.relay.HangUp(these)
	}
	look := time.NewTicker(thinEvery)
	defer look.Stop()
	t := newThinning(first, over)
	for left := first; left > 0; left = e.relay.Count(these) {
		if n := t.due(left, time.Now()); n > 0 {
			e.relay.HangUpSome(these, n)
		}
		select {
		case <-ctx.Done():
			return first - e.relay.Count(these), ctx.Err()
		case <-look.C:
		}
	}
	return first, nil
}
