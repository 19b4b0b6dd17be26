package upstream

// maxSlots is how many endpoints a [Tried] tells apart.
const maxSlots = 64

// Tried is what one connection remembers of its attempts, so that a fail over
// does not go to the same endpoint twice. The zero value has tried nothing.
//
// It remembers slots. In a pool of up to 64 endpoints each has a slot of its
// own. In a larger one several endpoints share a slot and count as tried
// together: one round then makes 64 attempts, and the balancer decides which
// of the sharers is among them.
type Tried struct {
	mask uint64 // a bit for each slot
}

// Reset forgets all attempts: a new round over all endpoints begins.
func (t *Tried) Reset() { t.mask = 0 }

func (t *Tried) add(e *Endpoint) { t.mask |= 1 << e.slot }

func (t *Tried) has(e *Endpoint) bool { return t.mask&(1<<e.slot) != 0 }

// slots counts the endpoints that use each slot of [Tried].
type slots struct {
	users [maxSlots]int
	next  uint8
}

// take gives the least used slot. Among equals it goes round, so that a slot
// rests for long before a connection that is still dialling could take its new
// owner for one it has tried.
func (s *slots) take() uint8 {
	best := s.next
	for i := range uint8(maxSlots) {
		if slot := (s.next + i) % maxSlots; s.users[slot] < s.users[best] {
			best = slot
		}
	}
	s.users[best]++
	s.next = (best + 1) % maxSlots
	return best
}

func (s *slots) release(slot uint8) { s.users[slot]-- }
