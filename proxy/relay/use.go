package relay

import (
	"slices"
	"sync/atomic"
)

// use is a listening socket in the service of one generation. A connection keeps
// the use by which it was accepted, whatever the socket serves later.
type use struct {
	socket  *Socket
	service *Service
	active  atomic.Int64
	note    atomic.Uint32 // in the vault; noNote = the next process would not know it
	relay   *Relay        // that has noted it
	loops   atomic.Int32  // that may accept by it, although it is no longer current
}

// over tells whether a former use has no connection and gets none any more.
func (u *use) over() bool { return u.loops.Load() == 0 && u.active.Load() == 0 }

func newUse(s *Socket, service *Service) *use {
	u := &use{socket: s, service: service}
	u.note.Store(noNote)
	return u
}

// passed is over, and drops what the next process would need to know then.
func (u *use) passed() bool {
	if !u.over() {
		return false
	}
	u.drop()
	return true
}

// drop lets the vault forget a use.
func (u *use) drop() {
	if u.note.Load() == noNote {
		return
	}
	u.relay.noting.Lock()
	defer u.relay.noting.Unlock()
	if n := u.note.Swap(noNote); n != noNote {
		u.relay.noted[u].DropNote(n)
		delete(u.relay.noted, u)
	}
}

// GenerationCount is the connections of one generation.
type GenerationCount struct {
	Generation uint64
	Active     int64
}

// Change gives the clients of a socket to another service from now on. Connections
// that are there keep theirs.
func (r *Relay) Change(s *Socket, service *Service) {
	u := newUse(s, service)
	r.describe(u)
	s.mu.Lock()
	s.former = slices.DeleteFunc(s.former, (*use).passed)
	old := s.current.Swap(u)
	old.loops.Store(int32(len(r.loops)))
	s.former = append(s.former, old)
	s.mu.Unlock()
	for _, l := range r.loops {
		ok := l.post(func(l *loop) {
			old.loops.Add(-1)
			l.reconsider(s)
		})
		if !ok {
			old.loops.Add(-1)
		}
	}
}
