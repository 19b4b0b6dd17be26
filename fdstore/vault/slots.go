package vault

import "sync/atomic"

// slots hands out the slots of the table to any number of goroutines: a stack of
// those that were given back, without a lock, and behind it those that were never
// used, so that these have no memory.
type slots struct {
	table *table
	next  []atomic.Uint32 // below each in the stack: slot + 1, 0 = the bottom
	top   atomic.Uint64   // slot + 1, and above it a count of all changes, against ABA
	place []atomic.Uint32 // where the record of each is: free, taken, or its segment
}

const (
	free    = 0
	taken   = 1
	inPlace = 2 // + the place of the segment
)

func newSlots(t *table) *slots {
	return &slots{table: t, next: make([]atomic.Uint32, t.slots), place: make([]atomic.Uint32, t.slots)}
}

// take gives a slot whose serial is 0.
func (s *slots) take() (slot uint32, ok bool) {
	for {
		top := s.top.Load()
		if uint32(top) == 0 {
			slot, ok = s.unused()
			break
		}
		slot = uint32(top) - 1
		if s.top.CompareAndSwap(top, (top>>32+1)<<32|uint64(s.next[slot].Load())) {
			ok = true
			break
		}
	}
	if ok {
		s.place[slot].Store(taken)
	}
	return slot, ok
}

// unused takes a slot that nobody has had. The table says so first: the next process
// looks at no others.
func (s *slots) unused() (uint32, bool) {
	mark := s.table.uint32At(atUsedSlots)
	for {
		n := mark.Load()
		if int(n) >= s.table.slots {
			return 0, false
		}
		if mark.CompareAndSwap(n, n+1) {
			return n, true
		}
	}
}

// give takes a slot back. It tells where its record was; free = it had been given
// back before, which changes nothing.
func (s *slots) give(slot uint32) (was uint32) {
	s.table.serial(slot).Store(0)
	was = s.place[slot].Swap(free)
	if was == free {
		return free
	}
	s.push(slot)
	return was
}

// push puts a slot that nobody has on the stack.
func (s *slots) push(slot uint32) {
	for {
		top := s.top.Load()
		s.next[slot].Store(uint32(top))
		if s.top.CompareAndSwap(top, (top>>32+1)<<32|uint64(slot+1)) {
			return
		}
	}
}
