package upstream

import "net/netip"

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
	return c.nth(b.equals.next(n), least)
}

func (b *leastConnections) peek(c candidates) *Endpoint {
	least, n := fewest(c)
	if n == 0 {
		return c.first
	}
	return c.nth(b.equals.upcoming(n), least)
}

// fewest is the lowest number of connections, and how many candidates have it.
func fewest(c candidates) (least int64, n int) {
	least = anyCount
	for _, e := range c.endpoints {
		if !c.has(e) {
			continue
		}
		switch count := e.record.connections.Load(); {
		case count < least:
			least, n = count, 1
		case count == least:
			n++
		}
	}
	return least, n
}
