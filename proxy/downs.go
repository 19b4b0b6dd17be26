package proxy

import (
	"encoding/json"
	"sync"

	"github.com/holdfast-proxy/holdfast/proxy/relay"
	"github.com/holdfast-proxy/holdfast/proxy/upstream"
)

// downs are the servers that are down, for the next process not to try them first: in the
// vault there is a note of each. They are written and dropped soon after a change. If this
// process is killed in between, the first probe of the next one finds out.
type downs struct {
	mu       sync.Mutex
	vault    relay.Vault              // nil = there is none
	notes    map[upstream.Down]uint32 // what is noted there
	recalled []upstream.Down          // what another process has told
	begun    bool                     // a generation is in service: this process knows better
}

// ofServer is the kind of these notes.
const ofServer relay.NoteKind = "server"

// downNote is a note of a server that is down.
type downNote struct {
	Kind relay.NoteKind `json:"kind"`
	upstream.Down
}

// attach has the servers noted in a vault from now on, where another process has left
// notes.
func (d *downs) attach(v relay.Vault, notes map[uint32][]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.vault, d.notes = v, make(map[upstream.Down]uint32)
	for number, content := range notes {
		var n downNote
		if json.Unmarshal(content, &n) != nil || n.Kind != ofServer {
			continue
		}
		if _, twice := d.notes[n.Down]; twice {
			v.DropNote(number)
			continue
		}
		d.notes[n.Down] = number
		if !d.begun {
			d.recalled = append(d.recalled, n.Down)
		}
	}
}

// letGo leaves the notes to another process.
func (d *downs) letGo() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.vault = nil
}

// recall is what another process has told.
func (d *downs) recall(told []upstream.Down) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recalled = append(d.recalled, told...)
}

// told is what another process has told, until a generation is in service.
func (d *downs) told() []upstream.Down {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.recalled
}

// begin is when the first generation is in service.
func (d *downs) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun, d.recalled = true, nil
}

// settle notes which servers are down now, and no others. now is asked when nobody else
// settles.
func (d *downs) settle(now func() []upstream.Down) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.vault == nil || !d.begun {
		return
	}
	noted := make(map[upstream.Down]uint32)
	for _, one := range now() {
		number, ok := d.notes[one]
		if !ok {
			number, ok = d.note(one)
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

func (d *downs) note(one upstream.Down) (number uint32, ok bool) {
	content, err := json.Marshal(downNote{ofServer, one})
	if err != nil {
		return 0, false // it has nothing that could not be written
	}
	return d.vault.Note(content)
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

// Recall tells of servers that are down, as another process says that this one succeeds.
// It is called before the first Apply. What is noted in a vault needs not be told.
func (e *Engine) Recall(down []upstream.Down) { e.downs.recall(down) }

// settleDowns has the next process know which servers are down.
func (e *Engine) settleDowns() { e.downs.settle(e.Down) }
