package vault

import (
	"golang.org/x/sys/unix"
)

// Writer puts connections into the vault. It is for one goroutine, such as an event
// loop; only Drop and what is about notes may be called from any.
//
//	slot, memory, ok := w.Take()
//	… // write what the next process must know into memory
//	if !w.Keep(slot, client, upstream) {
//		… // serve it unkept
//	}
//	…
//	w.Drop(slot)
//	… // shut down and close the descriptors
//
// Take, Keep and Drop do not allocate, and wait for nobody. Keep may close the last copies
// of what was dropped: where that is a socket, SO_LINGER must not be set on it.
type Writer struct {
	vault    *Vault
	envelope *envelope
	segment  *segment // nil = none with room
}

// Take reserves a slot that is nobody's yet. memory is its 240 bytes of the table, all
// zero, on an address that eight divides. It is false when all slots are taken. What
// is not kept has to be dropped as well.
func (w *Writer) Take() (slot uint32, memory []byte, ok bool) {
	slot, ok = w.vault.slots.take()
	if !ok {
		w.vault.refuse(lacksSlots)
		return 0, nil, false
	}
	memory = w.vault.table.memory(slot)
	clear(memory)
	return slot, memory, true
}

// Keep has the holder of the vault keep two descriptors, or only the first if b is
// negative. From then on the next process finds them with the slot, in this order.
//
// It is false when there is no room, and the slot is free again then, as after Drop.
func (w *Writer) Keep(slot uint32, a, b int32) bool {
	v := w.vault
	e := entry{serial: v.table.uint64At(atSerial).Add(1), slot: slot, count: 2}
	if b < 0 {
		e.count = 1
	}
	// The serial goes first: a record without a slot would be dead, and a slot without
	// a record is freed by the next process.
	v.table.serial(slot).Store(e.serial)
	w.envelope.control.fds = [mostFDs]int32{a, b}
	if why := w.append(e); why != 0 {
		v.refuse(why)
		v.slots.give(slot)
		return false
	}
	v.kept.Add(1)
	return true
}

// Drop ends the keeping of a slot, before its descriptors are closed: the next process
// gets it no more. Any goroutine may, and with any writer. The queue has its copies of
// the descriptors for some time still, at most some 20 s: close(2) alone sends no FIN
// until then, shutdown(2) does.
func (w *Writer) Drop(slot uint32) {
	v := w.vault
	switch was := v.slots.give(slot); was {
	case free, taken:
	default:
		v.kept.Add(-1)
		v.died(was - inPlace)
	}
}

// reserve counts descriptors in, if they may be in flight.
func (v *Vault) reserve(count int32) bool {
	if v.inFlight.Add(int64(count)) <= int64(v.o.InFlight) {
		return true
	}
	v.inFlight.Add(-int64(count))
	v.short.Store(true)
	return false
}

// append sends the record with the descriptors that are in the envelope. The error is one
// of those in lack.go, or what sendmsg(2) says.
func (w *Writer) append(e entry) unix.Errno {
	v := w.vault
	if !v.reserve(e.count) {
		return lacksFlight
	}
	why := lacksSegments
	v.writeRecord(w.envelope, e)
	for w.lock() {
		s := w.segment
		errno := w.envelope.send(s.in.Raw(), int(e.count))
		if errno == 0 {
			s.append(e)
			v.slots.place[e.slot].Store(inPlace + uint32(s.place))
			w.receiveDead(s)
			s.mu.Unlock()
			return 0
		}
		if errno == unix.EAGAIN {
			v.learn(s)
		}
		s.mu.Unlock()
		if errno != unix.EAGAIN {
			v.short.Store(true) // as ETOOMANYREFS says, or it does no harm
			why = errno
			break
		}
		w.letGo()
	}
	v.inFlight.Add(-int64(e.count))
	return why
}

// receiveDead takes dead records out that are at the head of a queue, some more than are
// sent: where connections are short the sweeper has nothing to do, and the sockets end
// while the processor still has them in its caches.
func (w *Writer) receiveDead(s *segment) {
	const most = 2
	for range most {
		if s.broken || s.mirror.len() == 0 || w.vault.live(*s.mirror.at(0)) {
			return
		}
		s.dead.Add(-1)
		w.vault.receiveHead(s, w.envelope)
	}
}

func (v *Vault) writeRecord(env *envelope, e entry) {
	r := record{
		slot: e.slot, serial: e.serial, count: int(e.count),
		userFormat: v.o.Format, userReaders: v.o.ReadBy,
	}
	r.write(&env.record)
}

// lock locks a segment with room, its own or the next that is ready. A segment that
// the sweeper is at is left to it.
func (w *Writer) lock() bool {
	v := w.vault
	if s := w.segment; s != nil {
		if v.lockWithRoom(s) {
			return true
		}
		w.letGo()
	}
	for range len(v.ready) {
		s := v.next()
		if s == nil {
			break
		}
		s.state.Store(used)
		w.segment = s
		if v.lockWithRoom(s) {
			return true
		}
		w.letGo() // the sweeper is at it, and will make it ready again
	}
	wake(v.growWanted)
	return false
}

func (v *Vault) lockWithRoom(s *segment) bool {
	if s.queued.Load() >= v.capacity.Load() || !s.mu.TryLock() {
		return false
	}
	if s.broken {
		s.mu.Unlock()
		return false
	}
	return true
}

// letGo leaves a segment to the sweeper.
func (w *Writer) letGo() {
	w.segment.state.Store(idle)
	w.segment.due.Store(true)
	w.segment = nil
	wake(w.vault.sweepWanted)
}

// next takes a segment that is ready; nil = there is none.
func (v *Vault) next() *segment {
	select {
	case s := <-v.ready:
		v.taken.Add(1)
		wake(v.growWanted)
		return s
	default:
		return nil
	}
}

// learn notes how many records a segment has that is full unexpectedly, less one.
func (v *Vault) learn(s *segment) {
	const least = 64 // less is a segment with a buffer of another size
	if n := s.queued.Load() - 1; n >= least && n < v.capacity.Load() {
		v.capacity.Store(n)
	}
}

// died counts a record dead.
func (v *Vault) died(place uint32) {
	s := v.places[place].Load()
	if s == nil {
		return
	}
	if dead := s.dead.Add(1); dead >= sweepFrom && 2*dead >= s.queued.Load() && !s.due.Swap(true) {
		wake(v.sweepWanted)
	}
}

// wake sends to a channel of one place, unless somebody has.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
