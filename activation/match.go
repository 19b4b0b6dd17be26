package activation

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// nobody is the want of a candidate that no want has claimed.
const nobody = -1

// candidate is an offered descriptor on its way to a want.
type candidate struct {
	Offer
	origin   Origin
	listener *sock.Listener // nil when the descriptor is not a socket
	problem  string         // why it cannot serve; "" when it can
	copy     bool           // another descriptor of the same socket is kept
	want     int            // index of the want that gets it, or nobody
}

// assignment shares the offers of all sources out among the wants.
type assignment struct {
	wants      []Want
	candidates []*candidate
}

func newAssignment(wants []Want, sources []*Source) *assignment {
	a := &assignment{wants: wants}
	for _, s := range sources {
		for _, o := range s.Offers {
			a.candidates = append(a.candidates, newCandidate(o, s.Origin))
		}
	}
	a.findCopies()
	return a
}

func newCandidate(o Offer, origin Origin) *candidate {
	c := &candidate{Offer: o, origin: origin, want: nobody}
	l, err := sock.Adopt(o.FD)
	if err != nil {
		c.problem = err.Error()
		return c
	}
	c.listener = l
	c.problem = unfit(l.Info)
	return c
}

// unfit says why a socket cannot serve clients of a stream; "" when it can.
func unfit(i sock.Info) string {
	switch {
	case i.Type != unix.SOCK_STREAM:
		return "not a stream socket"
	case i.Addr == sock.Addr{}:
		return "neither TCP nor a Unix stream"
	case i.Connected:
		return "one connection and not a listening socket: the socket unit has Accept=yes"
	case !i.Listening:
		return "not listening"
	}
	return ""
}

// findCopies marks all but one of the descriptors of each socket. The one that
// carries the name of a listener stays, else the first.
func (a *assignment) findCopies() {
	kept := make(map[uint64]*candidate)
	for _, c := range a.candidates {
		if c.listener == nil {
			continue
		}
		cookie := c.listener.Info.Cookie
		first, seen := kept[cookie]
		if seen && (a.wantNamed(first.Name) != nobody || a.wantNamed(c.Name) == nobody) {
			c.copy = true
			continue
		}
		if seen {
			first.copy = true
		}
		kept[cookie] = c
	}
}

func (a *assignment) wantNamed(name string) int {
	for i, w := range a.wants {
		if w.Name == name && name != "" {
			return i
		}
	}
	return nobody
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
		c.want = a.wantNamed(c.Name)
	}
}

func (a *assignment) byAddress() {
	for c := range a.free {
		c.want = a.wantAt(c.listener.Info)
	}
}

// wantAt prefers a want with the very address to one that the socket serves
// beside others.
func (a *assignment) wantAt(i sock.Info) int {
	served := nobody
	for n, w := range a.wants {
		for _, addr := range w.Addrs {
			if addr == i.Addr {
				return n
			}
			if served == nobody && i.Serves(addr) {
				served = n
			}
		}
	}
	return served
}

func (a *assignment) leftovers() {
	for n, w := range a.wants {
		if !w.TakesAny {
			continue
		}
		for c := range a.free {
			c.want = n
		}
	}
}

func (a *assignment) socketsOf(want int) []Socket {
	var sockets []Socket
	for _, c := range a.candidates {
		if c.want == want {
			sockets = append(sockets, Socket{Listener: c.listener, Origin: c.origin})
		}
	}
	return sockets
}

func (a *assignment) unwanted() []Unwanted {
	var list []Unwanted
	for _, c := range a.candidates {
		if c.want != nobody || c.copy {
			continue
		}
		u := Unwanted{Name: c.Name, Origin: c.origin, FD: c.FD, Reason: c.problem}
		if c.listener != nil {
			u.Info = c.listener.Info
		}
		if u.Reason == "" {
			u.Reason = "no listener has this name or address"
		}
		list = append(list, u)
	}
	return list
}

func (a *assignment) closeDuplicates() []Duplicate {
	var list []Duplicate
	for _, c := range a.candidates {
		if !c.copy {
			continue
		}
		_ = c.FD.Close() // the socket lives on in the other descriptor
		list = append(list, Duplicate{Name: c.Name, Origin: c.origin, Addr: c.listener.Addr()})
	}
	return list
}

// String is how a list of what arrived shows a descriptor.
func (c *candidate) String() string {
	name := "without a name"
	if c.Name != "" {
		name = strconv.Quote(c.Name)
	}
	if c.listener == nil {
		return fmt.Sprintf("%s (%s)", name, c.problem)
	}
	if c.problem != "" {
		return fmt.Sprintf("%s (%s, %s)", name, c.listener.Info, c.problem)
	}
	return fmt.Sprintf("%s (%s)", name, c.listener.Info)
}
