package proxy

import (
	"encoding/json"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/relay"
)

// drainNotes tell the next process when the time of connections is over whose socket was
// removed and closed, so that it does not begin anew there: in the vault there is one of each
// socket. Engine.mu guards them.
type drainNotes struct {
	vault relay.Vault // nil = there is none
	notes map[uint64]drainNote
}

// ofDrain is the kind of these notes.
const ofDrain relay.NoteKind = "drain"

// drainNote is a note of a socket that drains. Its clock is that of the host, which goes on
// between two processes.
type drainNote struct {
	Kind   relay.NoteKind `json:"kind"`
	Socket uint64         `json:"socket"`
	Over   time.Time      `json:"over"`

	number uint32
}

// attach has them in a vault from now on, where another process has left notes.
func (d *drainNotes) attach(v relay.Vault, notes map[uint32][]byte) {
	d.vault, d.notes = v, make(map[uint64]drainNote)
	for number, content := range notes {
		n := drainNote{number: number}
		if json.Unmarshal(content, &n) != nil {
			continue
		}
		d.drop(n.Socket)
		d.notes[n.Socket] = n
	}
}

// letGo leaves the notes to another process.
func (d *drainNotes) letGo() { d.vault, d.notes = nil, nil }

// put notes when the time of a socket is over.
func (d *drainNotes) put(socket uint64, over time.Time) {
	if d.vault == nil {
		return
	}
	n := drainNote{Kind: ofDrain, Socket: socket, Over: over}
	var ok bool
	n.number, ok = relay.LeaveNote(d.vault, n)
	d.drop(socket) // not before: two may be found
	if ok {
		d.notes[socket] = n
	}
}

// drop drops the note of a socket, if there is one.
func (d *drainNotes) drop(socket uint64) {
	if n, ok := d.notes[socket]; ok {
		delete(d.notes, socket)
		d.vault.DropNote(n.number)
	}
}

// keepThose drops all notes but those of some sockets.
func (d *drainNotes) keepThose(sockets []*listening) {
	left := make(map[uint64]bool, len(sockets))
	for _, l := range sockets {
		left[l.ID] = true
	}
	for socket := range d.notes {
		if !left[socket] {
			d.drop(socket)
		}
	}
}

// left is what another process has left of the time of a socket, or all of it.
func (d *drainNotes) left(socket uint64, limit config.Timeout) config.Timeout {
	n, ok := d.notes[socket]
	if !ok || limit.Never {
		return limit
	}
	return config.Timeout{Duration: min(max(time.Until(n.Over), 0), limit.Duration)}
}
