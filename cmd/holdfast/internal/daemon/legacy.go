package daemon

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
	"github.com/holdfast-proxy/holdfast/proxy/upstream"
)

// legacyName is what goes to the replacement beside the sockets.
const legacyName = "state/handover"

// legacy is a sealed file with what a replacement goes on with.
type legacy struct {
	Number      uint64          `json:"number"`                // of the generation in service: it is to go on
	Kept        json.RawMessage `json:"kept"`                  // what the holder has of it, or should have: see decodeKept
	Holder      string          `json:"holder,omitempty"`      // who keeps the sockets: see keeping.identity
	Stored      []string        `json:"stored,omitempty"`      // the names of what it has
	Down        []upstream.Down `json:"down,omitempty"`        // servers: they are not tried first
	Connections int             `json:"connections,omitempty"` // that are kept at the moment

	// Active are all connections, also those that are not kept, by listener.
	Active map[string]int64 `json:"active,omitempty"`

	// kept is Kept, zero where this version does not understand it. By it who waits at an
	// address that goes is served.
	kept kept
}

func (d *daemon) legacy() (*sock.FD, error) {
	k, err := d.keptOf(d.current).encode()
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(legacy{
		Number: d.current.number, Kept: k, Holder: d.keep.identity(), Stored: d.keep.names(),
		Down: d.engine.Down(), Connections: d.live.kept(), Active: d.engine.ConnectionsByListener(),
	})
	if err != nil {
		return nil, err
	}
	return fdstore.Memfd(legacyName, content)
}

// readLegacy gives nothing for what this version does not understand.
func (d *daemon) readLegacy(fd *sock.FD) legacy {
	content, err := fdstore.ReadMemfd(fd.Raw(), mostKept)
	var l legacy
	if err == nil {
		err = json.Unmarshal(content, &l)
	}
	if err == nil && l.Number > mostGenerations {
		err = fmt.Errorf("a generation with the number %d", l.Number)
	}
	if err != nil {
		d.log.Warn("what the running instance leaves is not understood", "error", err.Error())
		return legacy{}
	}
	if l.kept, err = decodeKept(l.Kept); err != nil {
		d.log.Warn("what the running instance says of its configuration is not understood", "error", err.Error())
		l.kept = kept{}
	}
	l.Number = max(l.Number, l.kept.Current.Number) // versions before that have it there alone
	return l
}

// storedOf are those of the offers that this process's holder has already, and
// configurations and the vault.
func (l legacy) storedOf(holder string, offers []activation.Offer) []fdstore.Held {
	if holder == "" || holder != l.Holder {
		return nil
	}
	var stored []fdstore.Held
	for _, o := range offers {
		if slices.Contains(l.Stored, o.Name) {
			stored = append(stored, fdstore.Held(o))
		}
	}
	for _, name := range l.Stored {
		if isState(name) || vault.IsName(name) {
			stored = append(stored, fdstore.Held{Name: name, FD: &sock.FD{}}) // of what it leads to nothing is asked
		}
	}
	return stored
}
