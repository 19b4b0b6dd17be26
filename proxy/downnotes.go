package proxy

import (
	"encoding/json"
	"sync"

	"github.com/holdfast-proxy/holdfast/proxy/relay"
	"github.com/holdfast-proxy/holdfast/proxy/upstream"
)

// downNotes tell the next process which servers are down, not to try them first: in the
// vault there is one of each. They are written and dropped soon after a change. If this
// process is killed in between, the first probe of the next one finds out.
//
// Locks are taken in this order: downNotes.mu, Engine.mu, Pool.mu of upstream.
type downNotes struct {
	mu    sync.Mutex
	vault relay.Vault              // nil = there is none
	notes map[upstream.Down]uint32 // what is noted there
	told  []upstream.Down          // by another process
	begun bool                     // a generation is in service: this process knows better
}

// mostDown is how many there are: a vault has 8,192 notes, and connections need some. Who
// else is down the next process finds out anew.
const mostDown = 1000

// ofServer is the kind of these notes.
const ofServer relay.NoteKind = "server"

// downNote is a note of a server that is down.
type downNote struct {
	Kind relay.NoteKind `json:"kind"`
	upstream.Down
}

// attach has the servers noted in a vault from now on, where another process has left
// notes.
func (d *downNotes) attach(v relay.Vault, notes map[uint32][]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.vault, d.notes = v, make(map[upstream.Down]uint32)
	for number, content := range notes {
		var n downNote
		if json.Unmarshal(content, &n) != nil {
			continue
		}
		if _, twice := d.notes[n.Down]; twice {
			v.DropNote(number)
			continue
		}
		d.notes[n.Down] = number
		if !d.begun {
			d.told = append(d.told, n.Down)
		}
	}
}

// letGo leaves the notes to another process.
func (d *downNotes) letGo() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.vault = nil
}

// add adds what another process tells.
func (d *downNotes) add(told []upstream.Down) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = append(d.told, told...)
}

// known is what another process has told, until a generation is in service.
func (d *downNotes) known() []upstream.Down {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.told
}

// begin is when the first generation is in service.
func (d *downNotes) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun, d.told = true, nil
}

// settle notes which servers are down now, and no others. now is asked when nobody else
// settles.
func (d *downNotes) settle(now func() []upstream.Down) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.vault == nil || !d.begun {
		return
	}
	noted := make(map[upstream.Down]uint32)
	for _, one := range now() {
		if len(noted) == mostDown {
			break
		}
		number, ok := d.notes[one]
		if !ok {
			number, ok = relay.LeaveNote(d.vault, downNote{ofServer, one})
		}
		if ok {
			noted[one] = number
		}
	}
	for one, number := range d.notes {
		if _, still := noted[one]; !still {
			d.vault.DropNote(number)
		}
	}
	d.notes = noted
}

// Down are the servers that are down.
func (e *Engine) Down() []upstream.Down {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []upstream.Down
	for _, p := range e.pools {
		all = append(all, p.Down()...)
	}
	return all
}

// SetDown tells which servers are down, as another process says that this one succeeds. It
// is called before the first Apply. What is noted in a vault needs not be told.
func (e *Engine) SetDown(down []upstream.Down) { e.downNotes.add(down) }

// settleDownNotes has the next process know which servers are down.
func (e *Engine) settleDownNotes() { e.downNotes.settle(e.Down) }
