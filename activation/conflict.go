package activation

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// explainOwnConflicts replaces the hint of an address that is in use by this
// very process: there is no other program to look for.
func explainOwnConflicts(problems AcquireError, listeners []Listener) {
	for _, p := range problems {
		if !errors.Is(p, unix.EADDRINUSE) {
			continue
		}
		for _, l := range listeners {
			for _, s := range l.Sockets {
				if conflict(s.Info, p.Addr) {
					p.hint = "listener " + l.Name + " has " + s.Addr().String() + ": two sockets cannot share an address"
				}
			}
		}
	}
}

// conflict tells whether the kernel refuses to bind a beside the socket: same
// port, a family in common, and the same address or a wildcard on either side.
func conflict(i sock.Info, a sock.Addr) bool {
	have, want := i.Addr.AddrPort, a.AddrPort
	if i.Addr.Network != a.Network || a.Path != i.Addr.Path || have.Port() != want.Port() {
		return false
	}
	if i.Addr == a {
		return true
	}
	takes4 := have.Addr().Is4() || have.Addr().IsUnspecified() && !i.V6Only
	wants4, wants6 := !want.Addr().Is6(), !want.Addr().Is4()
	wildcard := have.Addr().IsUnspecified() || want.Addr().IsUnspecified() || !want.Addr().IsValid()
	return wildcard && (takes4 && wants4 || have.Addr().Is6() && wants6)
}
