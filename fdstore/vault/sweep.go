package vault

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sweepFrom is how many dead records a segment has before it is swept early. With
	// less, the goroutine would be woken for too little.
	sweepFrom = 256
	// sweepTurns is in how many seconds each segment is swept once. What is dropped
	// holds its socket until then: one in FIN_WAIT2 does not time out while a copy
	// lives.
	sweepTurns = 20
)

// sweep takes dead records out of the queues. It ends with ctx.
func (v *Vault) sweep(ctx context.Context) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	b := newBroom(v)
	for turn := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-v.sweepWanted:
			for s := range v.segments {
				if s.due.Swap(false) {
					b.sweep(s, halfDead)
				}
			}
		case <-second.C:
			all := v.short.Swap(false)
			for s := range v.segments {
				if all || s.place%sweepTurns == turn%sweepTurns {
					b.sweep(s, anyDead)
				} else if s.due.Swap(false) { // it could not be swept when it was due
					b.sweep(s, halfDead)
				}
			}
			turn++
		}
	}
}

// broom sweeps segments, one after the other.
type broom struct {
	vault    *Vault
	envelope *envelope
	data     []byte // what was peeked at
}

func newBroom(v *Vault) *broom {
	return &broom{vault: v, envelope: newEnvelope(), data: make([]byte, peekBuffer)}
}

// What makes it worth while to sweep a segment: a share of 1/n dead records.
const (
	halfDead = 2
	anyDead  = 1 << 20
)

// sweep takes the dead records out of a segment, if there are enough of them. It is
// ready again then, if it is nobody's and has much room.
//
// A dead record at the head is received, and the kernel closes its descriptors. A live
// one before the last dead is sent anew first, to the end of the same queue: at no
// moment is it in none. A process that is killed between the two leaves it twice. So a
// sweep moves no more live records than there are in the segment. Begun when as many
// are dead, that is a constant for each drop.
func (b *broom) sweep(s *segment, share int) {
	v := b.vault
	// A segment that a writer has is not taken from it while there is no other: better
	// a dead record for some time than a connection that is not kept.
	if s.state.Load() == used && len(v.ready) == 0 {
		s.due.Store(true)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || s.broken {
		return
	}
	switch dead := v.countDead(s); {
	case s.in == nil: // nothing can be sent to it any more
		b.clean(s, s.mirror.len(), true)
	case dead > 0 && dead*share >= s.mirror.len():
		s.due.Store(!b.clean(s, dead, false))
	}
	v.offer(s)
}

// countDead counts what Drop has only estimated.
func (v *Vault) countDead(s *segment) int {
	before := s.dead.Load()
	dead := 0
	for i := range s.mirror.len() {
		if !v.live(*s.mirror.at(i)) {
			dead++
		}
	}
	s.dead.Add(int32(dead) - before)
	return dead
}

func (v *Vault) live(e entry) bool {
	return e.serial != 0 && v.table.serial(e.slot).Load() == e.serial
}

// clean takes dead records out of a segment until there were so many, or it is empty.
// Those that are in the way go to its own end, or away to other segments. It is false
// when something fails, such as that there is no room anywhere.
func (b *broom) clean(s *segment, dead int, away bool) bool {
	v := b.vault
	for dead > 0 && s.mirror.len() > 0 {
		if e := *s.mirror.at(0); !v.live(e) {
			dead--
			s.dead.Add(-1)
		} else if !b.sendAnew(s, e, away) {
			return false
		}
		if !v.receiveHead(s, b.envelope) {
			return false
		}
	}
	return true
}

// sendAnew copies the record at the head, to another segment if it must or its own is
// full.
func (b *broom) sendAnew(s *segment, e entry, away bool) bool {
	v := b.vault
	if !away && s.queued.Load() <= v.capacity.Load() {
		return b.copyHead(s, s, e)
	}
	to := v.lockAnother(s)
	if to == nil {
		return false
	}
	defer to.mu.Unlock()
	defer v.offer(to)
	return b.copyHead(s, to, e)
}

// lockAnother finds a segment with room, if possible one that no writer would miss.
func (v *Vault) lockAnother(s *segment) *segment {
	for _, state := range []int32{ready, idle, used} {
		for to := range v.segments {
			if to == s || to.in == nil || to.state.Load() != state || !v.lockWithRoom(to) {
				continue
			}
			if !to.gone {
				return to
			}
			to.mu.Unlock()
		}
	}
	return nil
}

// copyHead sends a copy of the record at the head of s to the end of a queue. The
// descriptors come from the queue itself: under the numbers that Keep was given there
// may be other files by now, if the record was dropped a moment ago.
func (b *broom) copyHead(s, to *segment, e entry) bool {
	v := b.vault
	l, errno := peek(s.out.Raw(), b.data)
	if errno != 0 {
		v.breakOff(s, "peek", errno)
		return false
	}
	defer l.close()
	r, err := parseRecord(l.data)
	if err != nil || r.serial != e.serial || r.slot != e.slot {
		v.breakOff(s, "compare", unix.EBADMSG)
		return false
	}
	if len(l.fds) != int(e.count) {
		return false // no descriptors left in this process, for now
	}
	// In its own format, which may say more than this program knows.
	if errno := b.envelope.forward(to.in.Raw(), l); errno != 0 {
		return false // no room in the queue or in flight, for now
	}
	v.inFlight.Add(int64(e.count))
	to.append(e)
	v.slots.place[e.slot].CompareAndSwap(inPlace+uint32(s.place), inPlace+uint32(to.place))
	return true
}

// receiveHead takes the record at the head of a queue out of it. s.mu is held.
func (v *Vault) receiveHead(s *segment, env *envelope) bool {
	n, errno := env.discard(s.out.Raw())
	if errno != 0 {
		v.breakOff(s, "receive", errno)
		return false
	}
	e := s.drop()
	v.inFlight.Add(-int64(e.count))
	// Serial 0 is a second copy or unreadable, as it was found.
	if r, err := parseRecord(env.record[:n]); e.serial != 0 && (err != nil || r.serial != e.serial) {
		v.breakOff(s, "compare", unix.EBADMSG)
		return false
	}
	return true
}

// breakOff leaves a segment alone for ever, as somebody else has been at its queue.
// What is kept in it stays there.
func (v *Vault) breakOff(s *segment, what string, errno unix.Errno) {
	s.broken = true
	v.o.Log.Error("a segment of the vault is not as this process left it; it is used no more", "segment", s.id, "step", what, "error", errno)
}
