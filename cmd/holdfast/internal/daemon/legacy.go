package daemon

import (
	"encoding/json"
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
	Kept        kept            `json:"kept"`                  // the number is to go on, and who waits at an address that goes is served
	Holder      string          `json:"holder,omitempty"`      // who keeps the sockets: see keeping.identity
	Stored      []string        `json:"stored,omitempty"`      // the names of what it has
	Down        []upstream.Down `json:"down,omitempty"`        // servers: they are not tried first
	Connections int             `json:"connections,omitempty"` // that are kept at the moment

	// Active are all connections, also those that are not kept, by listener.
	Active map[string]int64 `json:"active,omitempty"`
}

func (d *daemon) legacy() (*sock.FD, error) {
	content, err := json.Marshal(legacy{
		Kept: d.kept, Holder: d.keep.identity(), Stored: d.keep.names(),
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
	if err == nil {
		err = l.Kept.check()
	}
	if err != nil {
		d.log.Warn("what the running instance says of its configuration is not understood", "error", err.Error())
		return legacy{}
	}
	return l
}

// storedOf are those of the offers that this process's holder has already, and the
// configuration and the vault.
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
	state := stateName(l.Kept.Current.Number)
	for _, name := range l.Stored {
		if name == state || vault.IsName(name) {
			stored = append(stored, fdstore.Held{Name: name, FD: &sock.FD{}}) // of what it leads to nothing is asked
		}
	}
	return stored
}
