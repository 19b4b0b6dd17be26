package relay

import "sync/atomic"

// tally is how many clients a socket had, in this process and in those before it as far
// as they had its note in their vault: the number is beside that.
type tally struct {
	clients atomic.Int64
	kept    atomic.Pointer[atomic.Int64] // the same, where the next process finds it; nil = nowhere
	known   int64                        // what was there when the vault was let go, 0 before; Relay.noting is held
}

// add counts a client, in any loop.
func (t *tally) add() {
	n := t.clients.Add(1)
	if kept := t.kept.Load(); kept != nil {
		raise(kept, n)
	}
}

// raise sets a count. Loops may come in another order than they have counted.
func raise(kept *atomic.Int64, n int64) {
	for {
		before := kept.Load()
		if before >= n || kept.CompareAndSwap(before, n) {
			return
		}
	}
}

// begin counts in a new note, too. Clients may be accepted meanwhile.
func (t *tally) begin(kept *atomic.Int64) {
	t.kept.Store(kept)
	raise(kept, t.clients.Load())
}

// goOn does so in a note that another process has left, with what is there.
func (t *tally) goOn(kept *atomic.Int64) {
	t.clients.Add(kept.Load() - t.known)
	t.begin(kept)
}

// letGo leaves the count to another process. This one may get it back.
func (t *tally) letGo() {
	t.known = t.kept.Swap(nil).Load()
}

// tallies are the notes of all of them; Relay.noting is held.
type tallies struct {
	kept map[*Socket]uint32
	left map[uint64]uint32 // by id of the socket, by another process
}

func newTallies() tallies {
	return tallies{make(map[*Socket]uint32), make(map[uint64]uint32)}
}

// findTallies finds what another process has left.
func (r *Relay) findTallies(v Vault, notes map[uint32][]byte) {
	r.noting.Lock()
	defer r.noting.Unlock()
	for number, content := range notes {
		n, err := ReadNote(content)
		if err != nil || n.Kind != OfSocket {
			continue
		}
		// A socket that drains may be in service again beside that: it has two.
		if other, twice := r.tallies.left[n.Socket]; twice {
			clients := v.Counter(number).Load()
			v.DropNote(number) // first: who is killed in between is not to count them twice
			v.Counter(other).Add(clients)
			continue
		}
		r.tallies.left[n.Socket] = number
	}
}

// keepTally has the clients of a socket counted where the next process finds it, if there
// is room. noting is held.
func (r *Relay) keepTally(v Vault, s *Socket) {
	if _, kept := r.tallies.kept[s]; kept {
		return
	}
	if number, ok := r.tallies.left[s.id]; ok {
		delete(r.tallies.left, s.id)
		r.tallies.kept[s] = number
		s.tally.goOn(v.Counter(number))
	} else if number, ok := LeaveNote(v, Note{Kind: OfSocket, Socket: s.id, Label: s.label}); ok {
		r.tallies.kept[s] = number
		s.tally.begin(v.Counter(number))
	}
}

// dropTally forgets a socket that is gone. noting is held.
func (r *Relay) dropTally(s *Socket) {
	if number, kept := r.tallies.kept[s]; kept {
		s.tally.letGo()
		delete(r.tallies.kept, s)
		r.anyVault().DropNote(number)
	}
}

// dropLeftTallies forgets those of sockets that this process has not got.
func (r *Relay) dropLeftTallies() {
	r.noting.Lock()
	defer r.noting.Unlock()
	for _, number := range r.tallies.left {
		r.anyVault().DropNote(number)
	}
	clear(r.tallies.left)
}

// letGoTallies leaves them to another process. noting is held.
func (r *Relay) letGoTallies() {
	for s := range r.tallies.kept {
		s.tally.letGo()
	}
	clear(r.tallies.kept)
	clear(r.tallies.left)
}
