package upstream

import (
	"math"
	"net/netip"
)

// leastConnections takes the candidate with the fewest connections and dials.
// Equals take turns.
type leastConnections struct {
	equals roundRobin
}

func (b *leastConnections) pick(c candidates, _ netip.Addr) *Endpoint {
	least, n := fewest(c)
	if n == 0 {
		return c.first
	}
	return nthOfFewest(c, least, b.equals.next(n))
}

func (b *leastConnections) peek(c candidates) *Endpoint {
	least, n := fewest(c)
	if n == 0 {
		return c.first
	}
	return nthOfFewest(c, least, b.equals.upcoming(n))
}

// fewest is the lowest number of connections, and how many candidates have it.
func fewest(c candidates) (least int64, n int) {
	least = math.MaxInt64
	for _, e := range c.endpoints {
		if !c.has(e) {
			continue
		}
		switch count := e.connections.Load(); {
		case count < least:
			least, n = count, 1
		case count == least:
			n++
		}
	}
	return least, n
}

// nthOfFewest is number i of the candidates with at most least connections.
func nthOfFewest(c candidates, least int64, i int) *Endpoint {
	last := c.first
	for _, e := range c.endpoints {
		if !c.has(e) || e.connections.Load() > least {
			continue
		}
		if i == 0 {
			return e
		}
		i--
		last = e
	}
	return last
}
