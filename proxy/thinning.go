package proxy

import (
	"math"
	"time"
)

// thinEvery is how often a share of the connections is ended.
const thinEvery = 200 * time.Millisecond

// thinning ends connections evenly over a time. Those that end by themselves count.
type thinning struct {
	began  time.Time
	spread time.Duration // 0 = none is ended
	first  int64         // how many there were
	last   time.Time     // when a share was due
}

func newThinning(connections int64, spread time.Duration) *thinning {
	now := time.Now()
	return &thinning{began: now, spread: spread, first: connections, last: now}
}

// due is how many are to be ended now, of those that are left.
func (t *thinning) due(left int64, now time.Time) int64 {
	if t.spread == 0 || now.Sub(t.last) < thinEvery {
		return 0
	}
	t.last = now
	stay := 1 - float64(now.Sub(t.began))/float64(t.spread)
	return max(0, left-int64(math.Ceil(max(0, stay)*float64(t.first))))
}
