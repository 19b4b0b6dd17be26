package relay

import (
	"encoding/json"
	"time"
)

// Note is what the next process must know of the connections that a socket accepted in
// the service of one generation, or of the socket itself.
type Note struct {
	Kind        NoteKind      `json:"kind,omitempty"`
	Socket      uint64        `json:"socket"` // its id
	Label       string        `json:"label"`
	Listener    string        `json:"listener,omitempty"`
	Upstream    string        `json:"upstream,omitempty"`
	Generation  uint64        `json:"generation,omitempty"`
	IdleTimeout time.Duration `json:"idle_timeout,omitempty"` // in nanoseconds
}

// NoteKind says what a note is about. A reader passes over kinds that it does not know.
type NoteKind string

// The kinds of notes that a relay leaves.
const (
	OfUse    NoteKind = ""       // connections: there was no other kind at first
	OfSocket NoteKind = "socket" // its counter is that of the clients
)

// ReadNote reads a note. Of a kind that is none of the relay's only the kind counts.
func ReadNote(content []byte) (Note, error) {
	var n Note
	err := json.Unmarshal(content, &n)
	return n, err
}

// LeaveNote writes a note, a [Note] or one of another kind, down where the next process
// finds it, if there is room.
func LeaveNote(v Vault, note any) (number uint32, ok bool) {
	content, err := json.Marshal(note)
	if err != nil {
		return 0, false // it has nothing that could not be written
	}
	return v.Note(content)
}

// describe notes a use and its socket, before anybody is kept by it. It is false when there
// is no room for that.
func (r *Relay) describe(u *use) bool {
	r.noting.Lock()
	defer r.noting.Unlock()
	v := r.anyVault()
	if v == nil {
		return false
	}
	r.keepTally(v, u.socket)
	if u.note.Load() != noNote {
		return true
	}
	n := Note{
		Socket: u.socket.id, Label: u.socket.label, Listener: u.service.Listener,
		Upstream: u.service.Pool.Name(), Generation: u.service.Generation, IdleTimeout: u.service.IdleTimeout,
	}
	number, ok := LeaveNote(v, n)
	if ok {
		u.relay, r.noted[u] = r, v
		u.note.Store(number)
	}
	return ok
}

// Forget drops what was noted of a socket that has no connection any more.
func (r *Relay) Forget(s *Socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range append(s.former, s.current.Load()) {
		u.drop()
	}
	r.noting.Lock()
	defer r.noting.Unlock()
	r.dropTally(s)
}
