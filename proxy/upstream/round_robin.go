package upstream

import (
	"net/netip"
	"sync/atomic"
)

// roundRobin gives each candidate its turn. It counts turns, not positions, so
// that the neighbour of a server that is down does not get a double share.
type roundRobin struct {
	turn atomic.Int64
}

func (b *roundRobin) pick(c candidates, _ netip.Addr) *Endpoint {
	return c.nth(b.next(c.n), anyCount)
}

func (b *roundRobin) peek(c candidates) *Endpoint {
	return c.nth(b.upcoming(c.n), anyCount)
}

// next is whose turn it is among n > 0, and passes the turn on.
func (b *roundRobin) next(n int) int {
	return int((b.turn.Add(1) - 1) % int64(n))
}

// upcoming is what next will give.
func (b *roundRobin) upcoming(n int) int {
	return int(b.turn.Load() % int64(n))
}
