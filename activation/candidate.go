package activation

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// nobody is the want of a candidate that no want has claimed.
const nobody = -1

// candidate is a held socket or an offered descriptor on its way to a want.
type candidate struct {
	socket  Socket // without a Listener when the descriptor is not a socket
	fd      *sock.FD
	held    bool
	problem string // why it cannot serve a want; "" when it can
	copy    bool   // another descriptor of the same socket is kept
	want    int    // index of the want that gets it, or nobody
}

// gather makes candidates of everything, in the order in which it is to be matched.
func gather(held []Socket, sources []*Source) []*candidate {
	var all []*candidate
	for _, s := range held {
		c := heldCandidate(s)
		c.problem = unreachable(s)
		all = append(all, c)
	}
	for _, s := range sources {
		for _, o := range s.Offers {
			all = append(all, newCandidate(o, s.Origin))
		}
	}
	return all
}

func heldCandidate(s Socket) *candidate {
	return &candidate{socket: s, fd: s.FD, held: true, want: nobody}
}

func newCandidate(o Offer, origin Origin) *candidate {
	c := &candidate{socket: Socket{Origin: origin, Name: o.Name}, fd: o.FD, want: nobody}
	l, err := adopt(o, origin)
	if err != nil {
		c.problem = err.Error()
		return c
	}
	c.socket.Listener = l
	if c.problem = unfit(l.Info); c.problem == "" {
		c.problem = unreachable(c.socket)
	}
	return c
}

func adopt(o Offer, origin Origin) (*sock.Listener, error) {
	if origin.own() {
		return sock.AdoptStored(o.FD, o.Name)
	}
	l, err := sock.Adopt(o.FD)
	if err == nil && origin == Systemd && l.Info.Addr.Network == "tcp" {
		err = sock.InlineUrgent(o.FD.Raw()) // it may be long until clients are accepted
	}
	return l, err
}

// unfit says why clients cannot get to a socket; "" when they can.
func unfit(i sock.Info) string {
	switch {
	case i.Addr.Network == "udp" && i.Connected:
		return "connected to one peer"
	case i.Addr.Network == "udp" && i.Addr.AddrPort.Port() == 0:
		return "not bound"
	case i.Addr.Network == "udp":
		return ""
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

const notFound = "new clients do not find it any more"

// unreachable says why no new client finds a socket; "" when they do. That of a
// socket unit is left to the unit.
func unreachable(s Socket) string {
	if s.Origin.own() && !s.Reachable() {
		return notFound
	}
	return ""
}

// drainable tells whether there may be clients in the queue of the candidate.
func (c *candidate) drainable() bool {
	return c.socket.Listener != nil && unfit(c.socket.Info) == ""
}

// String is how a list of what arrived shows a descriptor.
func (c *candidate) String() string {
	name := "without a name"
	if c.socket.Name != "" {
		name = strconv.Quote(c.socket.Name)
	}
	if c.socket.Listener == nil {
		return fmt.Sprintf("%s (%s)", name, c.problem)
	}
	if c.problem != "" {
		return fmt.Sprintf("%s (%s, %s)", name, c.socket.Info, c.problem)
	}
	return fmt.Sprintf("%s (%s)", name, c.socket.Info)
}
