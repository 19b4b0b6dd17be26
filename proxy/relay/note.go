package relay

import "encoding/json"

// Note is what the next process must know of the connections that a socket accepted in
// the service of one generation.
type Note struct {
	Socket     uint64 `json:"socket"` // its id
	Label      string `json:"label"`
	Listener   string `json:"listener"`
	Upstream   string `json:"upstream"`
	Generation uint64 `json:"generation"`
}

// ReadNote reads what a relay has noted.
func ReadNote(content []byte) (Note, error) {
	var n Note
	err := json.Unmarshal(content, &n)
	return n, err
}

// describe notes a use, before anybody is accepted by it.
func (r *Relay) describe(u *use) {
	r.noting.Lock()
	defer r.noting.Unlock()
	v := r.anyVault()
	if v == nil || u.note.Load() != noNote {
		return
	}
	content, err := json.Marshal(Note{
		Socket: u.socket.id, Label: u.socket.label, Listener: u.service.Listener,
		Upstream: u.service.Pool.Name(), Generation: u.service.Generation,
	})
	if err != nil {
		return // it has nothing that could not be written
	}
	if number, ok := v.Note(content); ok {
		u.relay, r.noted[u] = r, v
		u.note.Store(number)
	}
}

// Forget drops what was noted of a socket that has no connection any more.
func (r *Relay) Forget(s *Socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range append(s.former, s.current.Load()) {
		u.drop()
	}
}
