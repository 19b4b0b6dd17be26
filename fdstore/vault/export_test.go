package vault

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
)

// Sweep takes all dead records out of all segments now.
func (v *Vault) Sweep() {
	b := newBroom(v)
	for s := range v.segments {
		b.sweep(s, anyDead)
	}
}

// Records are the messages in all queues.
func (v *Vault) Records() (records [][]byte, err error) {
	for s := range v.segments {
		err = errors.Join(err, eachRecord(s.out.Raw(), func(l letter) bool {
			l.close()
			records = append(records, slices.Clone(l.data))
			return false
		}))
	}
	return records, err
}

// Grow adds the segments that are wanted now.
func (v *Vault) Grow(ctx context.Context) error {
	return v.addSegments(ctx)
}

// WithoutPush calls f while nothing is on its way to the store.
func (v *Vault) WithoutPush(f func()) {
	v.changing.Lock()
	defer v.changing.Unlock()
	f()
}

// Shrink gives up what is not needed, as after a long time of calm.
func (v *Vault) Shrink(ctx context.Context) {
	v.shrink(ctx, newBroom(v), true)
}

// Queued is how many records are in all queues, as far as their mirrors go.
func (v *Vault) Queued() (n int) {
	for s := range v.segments {
		n += int(s.queued.Load())
	}
	return n
}

// SendAgain sends the record at the head of each segment anew, as a process that is
// killed while it sweeps.
func (v *Vault) SendAgain() {
	b := newBroom(v)
	for s := range v.segments {
		s.mu.Lock()
		if s.mirror.len() > 0 {
			b.copyHead(s, s, *s.mirror.at(0))
		}
		s.mu.Unlock()
	}
}

// Header is that of the table, and Parts what follows it up to the slabs, to be damaged.
func (v *Vault) Header() []byte { return v.table.mem[:headerEnd] }
func (v *Vault) Parts() []byte  { return v.table.mem[pageSize:v.table.slabsAt] }

// Offsets in it.
const (
	AtFormat     = atFormat
	AtTried      = atTried
	AtUnsettled  = atUnsettled
	AtReadableBy = atReadableBy
	AtSerial     = atSerial
	AtUsedSlots  = atUsedSlots
	AtSegment    = atSegment
)

// SendRecord sends a message to the segment that was made first, which its owner does
// not know of.
func (v *Vault) SendRecord(message []byte, slot uint32, serial uint64, fds ...int) error {
	for s := range v.segments {
		if message == nil {
			r := record{slot: slot, serial: serial, count: len(fds)}
			var b [recordSize]byte
			r.write(&b)
			message = b[:]
		}
		return sock.SendRights(s.in.Raw(), message, fds)
	}
	return nil
}

// Serial is who has a slot.
func (v *Vault) Serial(slot uint32) uint64 { return v.table.serial(slot).Load() }

// Lose takes the first record out of a queue behind the back of the mirror.
func (v *Vault) Lose(slot uint32) {
	s := v.places[v.slots.place[slot].Load()-inPlace].Load()
	newEnvelope().discard(s.out.Raw())
}

// SetCapacity is how many records a segment is given at most.
func (v *Vault) SetCapacity(n int32) { v.capacity.Store(n) }

// Forget drops all slots, and the sweeper does not hear of it.
func (v *Vault) Forget() {
	for slot := range v.table.uint32At(atUsedSlots).Load() {
		v.table.serial(slot).Store(0)
	}
}

// RestoreOnly is Restore without a sweeper behind it.
func RestoreOnly(o Options, files []fdstore.Held) (*Vault, Found, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, Found{}, err
	}
	p := sortFiles(files)
	t, err := p.openTable(o)
	if err != nil {
		return nil, Found{}, err
	}
	r := &restoration{vault: newVault(o, t)}
	r.restore(p)
	return r.vault, r.found, nil
}

// InFlight is how many descriptors may be in flight.
func (v *Vault) InFlight() int { return v.o.InFlight }
