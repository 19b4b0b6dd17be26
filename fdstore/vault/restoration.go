package vault

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// restoration is the work of Restore, once there is a table.
type restoration struct {
	vault *Vault
	found Found
	spare []*sock.FD // closed to get the descriptors of a connection that has to be reset
	short bool       // spare was needed for the record that is looked at

	serial    uint64 // the highest that was seen
	usedSlots uint32 // slots from this one on were not seen
}

func (r *restoration) restore(p *parts) {
	v := r.vault
	r.usedSlots = min(v.table.uint32At(atUsedSlots).Load(), uint32(v.table.slots))
	r.clearDirectory()
	r.reserve()
	for _, s := range p.segments {
		r.segment(s)
	}
	r.release()
	r.freeSlots(p.queueLost)
	r.mendCounters(p)
	v.slabs.restore()
}

// mendCounters sees to it that counters that were damaged do not give out what is in
// use, nor come to their end.
func (r *restoration) mendCounters(p *parts) {
	t := r.vault.table
	t.uint32At(atUsedSlots).Store(r.usedSlots)
	serial := t.uint64At(atSerial).Load()
	if serial > mostSerial {
		serial = 0
	}
	t.uint64At(atSerial).Store(max(serial, r.serial))
	id := t.uint32At(atSegment).Load()
	if id > mostID {
		id = 0
	}
	for _, s := range p.segments {
		id = max(id, s.id)
	}
	t.uint32At(atSegment).Store(id)
}

// clearDirectory forgets the numbers that descriptors had in the former owner.
func (r *restoration) clearDirectory() {
	t := r.vault.table
	t.uint32At(atOwner).Store(0)
	for i := range t.pairs {
		t.uint32At(t.pair(i)).Store(0)
	}
}

// segment takes over what is in a segment. There it stays: what lives is there for the
// next process, and what does not the sweeper takes out later.
func (r *restoration) segment(s *segment) {
	v := r.vault
	if !v.enter(s) {
		v.o.Log.Error("the directory of the vault has no place for a restored segment", "segment", s.id, "error", s.close())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := eachRecord(s.out.Raw(), func(l letter) (again bool) { return r.letter(s, l) })
	s.due.Store(true)
	if err != nil {
		s.broken = true
		v.o.Log.Error("a segment of the vault cannot be read to its end", "segment", s.id, "error", err)
		return
	}
	v.offer(s)
	wake(v.sweepWanted)
}

// letter decides about a record, and owns its descriptors. It asks for the same again
// when this process can open no more: what is lost is needed for a moment, to be reset.
func (r *restoration) letter(s *segment, l letter) (again bool) {
	v := r.vault
	rec, err := parseRecord(l.data)
	e := entry{slot: rec.slot, count: int32(len(l.fds))}
	if errors.Is(err, errNoRecord) || int64(rec.slot) >= int64(v.table.slots) {
		r.lose(l, nil, errNoRecord.Error())
		r.dead(s, e)
		return false
	}
	r.serial = max(r.serial, rec.serial)
	r.usedSlots = max(r.usedSlots, rec.slot+1)
	if err == nil {
		e.count = int32(rec.count)
	}
	live := v.table.serial(rec.slot).Load() == rec.serial
	second := v.slots.place[rec.slot].Load() != free
	switch {
	case !live || second: // dropped, or sent anew and not yet received by the one who was killed
		l.close()
	case err != nil:
		r.lose(l, &rec.slot, err.Error())
	case !readable(rec.userFormat, rec.userReaders, v.o.Format, v.o.Reads):
		r.lose(l, &rec.slot, fmt.Sprintf("%v: its slot has format %d, and this program reads %d to %d", errNewer, rec.userFormat, v.o.Reads, v.o.Format))
	case !r.short && (l.lost || len(l.fds) != rec.count):
		l.close()
		r.release()
		r.short = true
		return true
	case r.short:
		r.lose(l, &rec.slot, "this process may not open more descriptors (RLIMIT_NOFILE)")
		r.reserve()
		r.short = false
	default:
		e.serial = rec.serial
		r.keep(s, l, rec)
		s.append(e)
		v.inFlight.Add(int64(e.count))
		return false
	}
	r.dead(s, e)
	return false
}

func (r *restoration) keep(s *segment, l letter, rec record) {
	v := r.vault
	k := Kept{Slot: rec.slot, Memory: v.table.memory(rec.slot), FDs: [mostFDs]int32{-1, -1}}
	for i, fd := range l.fds {
		k.FDs[i] = int32(fd.Disown())
	}
	r.found.Kept = append(r.found.Kept, k)
	v.slots.place[rec.slot].Store(inPlace + uint32(s.place))
	v.kept.Add(1)
}

// dead notes a record that is of no use any more.
func (r *restoration) dead(s *segment, e entry) {
	s.append(e)
	s.dead.Add(1)
	r.vault.inFlight.Add(int64(e.count))
}

// lose resets a connection that cannot go on. Its slot, if it has one, is nobody's then.
func (r *restoration) lose(l letter, slot *uint32, reason string) {
	l.reset()
	l.close()
	lost := Lost{Reason: reason}
	if slot != nil {
		lost.Memory = slices.Clone(r.vault.table.memory(*slot))
		r.vault.table.serial(*slot).Store(0)
	}
	r.found.Lost = append(r.found.Lost, lost)
}

// freeSlots frees what no record was found for: its owner was killed before it could
// send that, or the queue is gone in which it was.
func (r *restoration) freeSlots(queueLost bool) {
	v := r.vault
	for slot := int64(r.usedSlots) - 1; slot >= 0; slot-- { // the first are the first to be used again
		slot := uint32(slot)
		if v.slots.place[slot].Load() != free {
			continue
		}
		if v.table.serial(slot).Swap(0) != 0 && queueLost {
			r.found.Lost = append(r.found.Lost, Lost{
				Memory: slices.Clone(v.table.memory(slot)),
				Reason: "the end of the segment is missing that it was queued in",
			})
		}
		v.slots.push(slot)
	}
}

func (r *restoration) reserve() {
	for range mostFDs {
		if raw, err := unix.FcntlInt(uintptr(r.vault.table.fd.Raw()), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			r.spare = append(r.spare, sock.NewFD(raw))
		}
	}
}

func (r *restoration) release() {
	for _, fd := range r.spare {
		_ = fd.Close()
	}
	r.spare = nil
}
