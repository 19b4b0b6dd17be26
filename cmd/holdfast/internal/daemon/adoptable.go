package daemon

import (
	"slices"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// wanted are the addresses whose sockets are to be taken out of another program, each
// with the listener that it is for.
type wanted struct {
	names []string // of listeners that must get one
	at    map[sock.Addr]string
}

// newWanted are those of all listeners, or of the named ones.
func newWanted(cfg *config.Config, names []string) wanted {
	w := wanted{names: names, at: map[sock.Addr]string{}}
	for _, want := range wants(cfg) {
		if len(names) > 0 && !slices.Contains(names, want.Name) {
			continue
		}
		for _, a := range want.Addrs {
			w.at[a] = want.Name
		}
	}
	return w
}

// choose gives those of the sockets that are wanted, and closes the others. It matches as
// activation.Acquire does, which would drain what it has no listener for.
func (w wanted) choose(found []pidfd.Found) (theirs []pidfd.Found) {
	for _, f := range found {
		if w.listener(f) != "" {
			theirs = append(theirs, f)
		} else {
			_ = f.FD.Close() // the other program has it, too
		}
	}
	return theirs
}

// listener is the one that a socket is for; "" = none.
func (w wanted) listener(f pidfd.Found) string {
	if f.Info.Device != "" || f.Info.OtherNetNS || f.Info.Retired {
		return "" // only some clients of its address arrive there, or none
	}
	for _, a := range f.Info.ListenAddrs() {
		if name := w.at[a]; name != "" {
			return name
		}
	}
	return ""
}

// missing are the listeners that must get a socket, and do not.
func (w wanted) missing(theirs []pidfd.Found) []string {
	return slices.DeleteFunc(slices.Clone(w.names), func(name string) bool {
		return slices.ContainsFunc(theirs, func(f pidfd.Found) bool { return w.listener(f) == name })
	})
}
