package upstream

import (
	"math/rand/v2"
	"net/netip"
)

// random2 draws two candidates and takes the one with fewer connections: the
// power of two choices. Proxies that do not know of each other then do not all
// run to the same idle server, as they would with least_connections.
type random2 struct{}

func (random2) pick(c candidates, _ netip.Addr) *Endpoint {
	if c.n == 1 {
		return c.first
	}
	i, j := rand.IntN(c.n), rand.IntN(c.n-1)
	if j >= i {
		j++
	}
	a, b := c.nth(i, anyCount), c.nth(j, anyCount)
	if b.record.connections.Load() < a.record.connections.Load() {
		return b
	}
	return a
}

func (random2) peek(c candidates) *Endpoint { return c.first }
