package keeper

import "time"

// Clients wait in a queue while nothing runs, and connections that are kept stand still:
// what has run well is started again at once, and no pause is long. What fails again and
// again must not take the host's time.
var ( // tests that kill hundreds of processes change them
	firstPause = 100 * time.Millisecond
	mostPause  = time.Second
)

// goodLife is how long a process runs that has not failed at its start.
const goodLife = 10 * time.Second

// backoff is the pause before a restart. The zero value is ready.
type backoff struct {
	pause time.Duration
}

// next is the pause after a process that has lived that long.
func (b *backoff) next(lived time.Duration) time.Duration {
	switch {
	case lived >= goodLife:
		b.pause = 0
	case b.pause == 0:
		b.pause = firstPause
	default:
		b.pause = min(2*b.pause, mostPause)
	}
	return b.pause
}
