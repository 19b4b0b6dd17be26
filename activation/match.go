package activation

import (
	"golang.org/x/sys/unix"
)

// Match tells which of the sockets each want would get by name or address, in the
// order of the wants. Nothing is bound, closed or looked at anew: it is for sockets
// that are served to the end of their queue, so a Unix socket whose path is gone
// counts for that path, and a retired one for its address.
func Match(wants []Want, sockets []Socket) [][]Socket {
	var candidates []*candidate
	for _, s := range sockets {
		candidates = append(candidates, heldCandidate(s))
	}
	return assign(wants, candidates).claimed()
}

// Wanted tells whether any want would get a descriptor of the sources. They are left as
// they are.
func Wanted(wants []Want, sources ...*Source) bool {
	for _, sockets := range assign(wants, gather(nil, sources)).claimed() {
		if len(sockets) > 0 {
			return true
		}
	}
	return false
}

// assignment shares candidates out among the wants.
type assignment struct {
	wants      []Want
	index      wantIndex
	candidates []*candidate
}

func assign(wants []Want, candidates []*candidate) *assignment {
	a := &assignment{wants: wants, index: newWantIndex(wants), candidates: candidates}
	a.findRenamed()
	a.findCopies()
	a.byName()
	a.byAddress()
	a.leftovers()
	return a
}

// findRenamed finds Unix sockets whose file was renamed at the path that a want has.
func (a *assignment) findRenamed() {
	for _, c := range a.candidates {
		if c.socket.Listener == nil || !c.socket.Origin.own() || c.socket.Reachable() {
			continue
		}
		for _, w := range a.wants {
			for _, addr := range w.Addrs {
				if addr.Network == "unix" && c.socket.Renamed(addr.Path) && c.problem == notFound {
					c.problem = ""
				}
			}
		}
	}
}

// findCopies marks all but one of the descriptors of each socket. A held one
// stays, else the one that carries the name of a listener, else the first.
func (a *assignment) findCopies() {
	kept := make(map[uint64]*candidate)
	for _, c := range a.candidates {
		if c.socket.Listener == nil {
			continue
		}
		cookie := c.socket.Info.Cookie
		first, seen := kept[cookie]
		if seen && (first.held || a.index.byName(first) != nobody || a.index.byName(c) == nobody) {
			c.copy = true
			continue
		}
		if seen {
			first.copy = true
		}
		kept[cookie] = c
	}
}

// free are the candidates that can serve and have no want yet.
func (a *assignment) free(yield func(*candidate) bool) {
	for _, c := range a.candidates {
		if c.problem == "" && !c.copy && c.want == nobody && !yield(c) {
			return
		}
	}
}

func (a *assignment) byName() {
	for c := range a.free {
		if n := a.index.byName(c); n != nobody && a.index.takes(n, c.socket.Info) {
			c.want = n
		}
	}
}

func (a *assignment) byAddress() {
	for c := range a.free {
		c.want = a.index.byAddress(c)
	}
}

func (a *assignment) leftovers() {
	for n, w := range a.wants {
		if !w.TakesAny {
			continue
		}
		for c := range a.free {
			if c.socket.Origin == Systemd && c.socket.Info.Type == unix.SOCK_STREAM {
				c.want = n
			}
		}
		return // nothing is left for another one
	}
}

// claimed are the sockets of each want.
func (a *assignment) claimed() [][]Socket {
	sockets := make([][]Socket, len(a.wants))
	for _, c := range a.candidates {
		if c.want != nobody {
			sockets[c.want] = append(sockets[c.want], c.socket)
		}
	}
	return sockets
}

// whyUnclaimed is the reason for the log.
func (a *assignment) whyUnclaimed(c *candidate) string {
	n := a.index.byName(c)
	switch {
	case c.problem != "":
		return c.problem
	case n != nobody:
		return "a datagram socket, and listener " + a.wants[n].Name + " has no udp address"
	case apart(c.socket.Info):
		return "no listener has this name, and only some clients of its address arrive here"
	}
	return "no listener has this name or address"
}
