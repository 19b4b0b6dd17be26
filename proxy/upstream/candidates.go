package upstream

import "math"

// anyCount is a number of connections that no endpoint exceeds.
const anyCount = math.MaxInt64

// candidates is what one Pick chooses from: the endpoints that were not tried
// and have the best grade among those. Health and penalties may change while
// it is in use; the choice then is a moment old, never none.
//
// It is passed by value: through the balancer interface a pointer would move it
// to the heap.
type candidates struct {
	endpoints []*Endpoint
	tried     Tried
	now       int64
	grade     grade
	n         int       // how many there are
	first     *Endpoint // nil when n is 0
}

func newCandidates(endpoints []*Endpoint, tried Tried, now int64) candidates {
	c := candidates{endpoints: endpoints, tried: tried, now: now, grade: noGrade}
	for _, e := range endpoints {
		if tried.has(e) {
			continue
		}
		switch g := e.grade(now); {
		case g < c.grade:
			c.grade, c.n, c.first = g, 1, e
		case g == c.grade:
			c.n++
		}
	}
	return c
}

func (c *candidates) has(e *Endpoint) bool {
	return !c.tried.has(e) && e.grade(c.now) == c.grade
}

// nth is number i, counted from 0 in configured order, of the candidates that
// have at most so many connections. Where there are too few by now, it is the
// last one.
func (c *candidates) nth(i int, most int64) *Endpoint {
	last := c.first
	for _, e := range c.endpoints {
		if !c.has(e) || e.record.connections.Load() > most {
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
