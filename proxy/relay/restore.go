package relay

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Restored is what became of connections that another process has left.
type Restored struct {
	Connections int // that go on, among them those whose server is dialled again
	Ended       int // that the other process was ending
	Lost        int // that were reset, as they cannot go on
}

// Restore goes on with what another process has left in the vault, which is attached. uses
// has what its notes stand for; connections without one are reset. The descriptors are the
// relay's from now on. When it returns, the relay has adopted the slabs of the other process
// that it needs, and needs none of its notes.
func (r *Relay) Restore(kept []Kept, uses map[uint32]Use) Restored {
	found, unused := r.adoptUses(uses)
	shares, left := r.share(kept)
	var sum restoring
	r.eachWait(func(l *loop) {
		l.now = r.clock()
		for _, k := range shares[l.index] {
			sum.count(l.restore(k, found[slotIn(k.Memory).note], left))
		}
	})
	for _, u := range found {
		u.loops.Add(-1)
	}
	left.pipes.close(r.anyVault())
	r.shareBuffers(&left.buffers)
	for _, number := range unused {
		r.anyVault().DropNote(number)
	}
	r.dropLeftTallies()
	return Restored{Connections: int(sum.connections.Load()), Ended: int(sum.ended.Load()), Lost: int(sum.lost.Load())}
}

// share gives each loop as many connections as another.
func (r *Relay) share(kept []Kept) ([][]Kept, *leftovers) {
	shares := make([][]Kept, len(r.loops))
	left := newLeftovers()
	doubles := doubles{}
	next := 0
	for _, k := range kept {
		switch {
		case slotIn(k.Memory).state == slotPipe && k.FDs[1] < 0: // with two descriptors it is none
			left.pipes.fds[k.Slot] = k.FDs[0]
		case doubles.found(k):
			discard(r.anyVault(), k)
		default:
			shares[next] = append(shares[next], k)
			next = (next + 1) % len(shares)
		}
	}
	return shares, left
}

// shareBuffers gives the loops what is free of the slabs that were adopted.
func (r *Relay) shareBuffers(left *leftBuffers) {
	r.eachWait(func(l *loop) {
		for number, inUse := range left.inUse {
			if int(number)%len(r.loops) != l.index {
				continue
			}
			if slab, ok := l.vault.AdoptSlab(number); ok {
				l.shared.buffers.hold(number, slab)
				l.shared.buffers.add(number, inUse)
			}
		}
	})
}

// restoring counts what becomes of connections, in any loop.
type restoring struct{ connections, ended, lost atomic.Int64 }

func (r *restoring) count(err error) {
	switch {
	case err == nil:
		r.connections.Add(1)
	case errors.Is(err, errEnding):
		r.ended.Add(1)
	default:
		r.lost.Add(1)
	}
}

// errEnding is that a connection was being ended, which is done then.
var errEnding = errors.New("it was being ended")

// restore makes a pair of what was left of one connection. After an error it is ended.
func (l *loop) restore(k Kept, u *use, left *leftovers) error {
	s := slotIn(k.Memory)
	if u == nil {
		l.dismiss(k)
		return l.lost(s, errors.New("its listener is not known"))
	}
	p := l.takeOver(k, u)
	var err error
	switch state := s.state; {
	case s.flags&^allFlags != 0:
		err = fmt.Errorf("flags %#x", s.flags)
	case state == slotDialing:
		err = l.redial(p)
	case state == slotOpen:
		err = l.resumeOpen(p, left)
	case state == slotReset:
		l.reset(p, Stopped)
		return errEnding
	case state == slotEnded:
		l.endInOrder(p, Stopped)
		return errEnding
	default:
		err = fmt.Errorf("state %d", state)
	}
	if err != nil {
		err = l.lost(s, err)
		p.side[client].broken, p.side[server].broken = false, false // whatever was noted: both are reset
		l.reset(p, NotRestored)
		return err
	}
	l.counters.restored.Add(1)
	return nil
}

// takeOver makes a pair of a slot, with nothing under way.
func (l *loop) takeOver(k Kept, u *use) *pair {
	s := slotIn(k.Memory)
	l.serial += uint64(len(l.relay.loops))
	p := l.pairs.take(l.serial)
	p.kept, p.number, p.use = s, k.Slot, u
	p.peer, p.local = s.peer.get(), s.local.get()
	p.opened, p.active = l.relay.moment(s.opened), l.now
	p.phase = accepted
	for i := range p.side {
		fd := k.FDs[i]
		p.side[i] = side{fd: fd, tcp: isTCP(fd), readable: true, writable: true, broken: s.has(flagBroken, i), eaten: s.has(flagEaten, i)}
	}
	if fd := p.side[server].fd; fd >= 0 {
		p.family, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
	}
	p.headerIn = s.flow[client].before
	atomic.StoreUint32(&s.note, u.note.Load())
	u.active.Add(1)
	u.service.Limit.active.Add(1)
	l.counters.active.Add(1)
	if u.service.IdleTimeout > 0 {
		l.idlers++
	}
	return p
}

// dismiss resets a connection that belongs to nobody.
func (l *loop) dismiss(k Kept) {
	slotIn(k.Memory).setState(slotReset)
	for _, fd := range k.FDs {
		if fd >= 0 {
			sever(fd, isTCP(fd))
		}
	}
	discard(l.vault, k)
}

// lost leaves a note that a connection does not go on.
func (l *loop) lost(s *slot, err error) error {
	l.relay.note(event{kind: notRestored, client: s.peer.get(), err: err})
	return err
}
