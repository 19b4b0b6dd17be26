package relay

// Use says whose the connections of one note are.
type Use struct {
	Socket  *Socket
	Service *Service
}

// adoptUses finds the use of each note, or makes it, and tells which notes are not
// needed any more when all connections have those of their uses. No use is over before
// it has its connections: who asks for counts meanwhile would drop its note.
func (r *Relay) adoptUses(uses map[uint32]Use) (found map[uint32]*use, unused []uint32) {
	found = make(map[uint32]*use, len(uses))
	for number, of := range uses {
		u := r.useOf(of)
		found[number] = u
		if !u.adoptNote(r, number) {
			unused = append(unused, number)
		}
	}
	return found, unused
}

// adoptNote tells whether a use has the note of that number, which it takes where there
// was no room for one of its own.
func (u *use) adoptNote(r *Relay, number uint32) bool {
	r.noting.Lock()
	defer r.noting.Unlock()
	r.keepTally(r.anyVault(), u.socket)
	if u.note.Load() == noNote {
		u.relay, r.noted[u] = r, r.anyVault()
		u.note.Store(number)
	}
	return u.note.Load() == number
}

// useOf is the use of a socket in a service: the present one, or a former one. Until it
// has its connections one more loop counts as serving it.
func (r *Relay) useOf(of Use) *use {
	s := of.Socket
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range append(s.former[:len(s.former):len(s.former)], s.current.Load()) {
		if u.service.Generation == of.Service.Generation && u.service.Listener == of.Service.Listener {
			u.loops.Add(1)
			return u
		}
	}
	u := newUse(s, of.Service)
	u.loops.Add(1)
	r.describe(u)
	s.former = append(s.former, u)
	return u
}
