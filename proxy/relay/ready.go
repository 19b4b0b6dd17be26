package relay

// ready is a slot of the vault for the next client, so that between accept4 and Keep
// nothing is left to be done.
type ready struct {
	use    *use // by which the slot is filled; nil = there is none
	slot   *slot
	number uint32
}

// take gives a slot for a client who is accepted by a use, or nil where there is none.
func (r *ready) take(l *loop, by *use) (*slot, uint32) {
	note := by.note.Load()
	if l.vault == nil || note == noNote || !l.relay.keeping.Load() {
		return nil, 0
	}
	if r.use == nil {
		number, memory, ok := l.vault.Take()
		if !ok {
			return nil, 0
		}
		r.slot, r.number = slotIn(memory), number
	}
	r.use = by
	r.slot.note = note
	r.slot.opened = l.relay.wall(l.now)
	return r.slot, r.number
}

// used notes that the slot has become a connection's, or is free again.
func (r *ready) used() { *r = ready{} }

func (r *ready) giveUp(l *loop) {
	if r.use != nil {
		l.vault.Drop(r.number)
		r.used()
	}
}
