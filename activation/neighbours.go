package activation

import (
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// neighbours are the sockets of this process that may be in the way of one to be
// bound. Only those of one place can be.
type neighbours struct {
	staying map[place][]neighbour
	leaving map[place][]*sock.Listener // our own ones that no want keeps
}

// place is an address without its host.
type place struct {
	network string
	port    uint16
	path    string
}

type neighbour struct {
	info     sock.Info
	listener string // which has it; "" = it is a socket unit's, and no listener does
}

// hint is for the person who wants the neighbour's address.
func (n *neighbour) hint() string {
	if n.listener == "" {
		return "a socket unit has " + n.info.String() +
			", and no listener takes it: change the unit, or give a listener that address"
	}
	return "listener " + n.listener + " has " + n.info.String() + ": two sockets cannot share an address"
}

// neighbours are the candidates as they were assigned.
func (a *assignment) neighbours() *neighbours {
	n := &neighbours{staying: make(map[place][]neighbour), leaving: make(map[place][]*sock.Listener)}
	for _, c := range a.candidates {
		switch {
		case c.copy || !c.drainable():
		case c.want != nobody:
			n.stays(a.wants[c.want].Name, c.socket.Info)
		case c.socket.Origin.own():
			n.leave(c.socket.Listener)
		default:
			n.stays("", c.socket.Info)
		}
	}
	return n
}

func placeOf(a sock.Addr) place {
	return place{network: a.Network, port: a.AddrPort.Port(), path: a.Path}
}

func (n *neighbours) stays(listener string, i sock.Info) {
	p := placeOf(i.Addr)
	n.staying[p] = append(n.staying[p], neighbour{info: i, listener: listener})
}

func (n *neighbours) leave(listeners ...*sock.Listener) {
	for _, l := range listeners {
		p := placeOf(l.Addr())
		n.leaving[p] = append(n.leaving[p], l)
	}
}

// inTheWay is a socket that stays and with which the address overlaps; nil = none.
func (n *neighbours) inTheWay(a sock.Addr) *neighbour {
	staying := n.staying[placeOf(a)]
	for i := range staying {
		if staying[i].info.Conflicts(a) {
			return &staying[i]
		}
	}
	return nil
}

// replaceable are the sockets beside which an address may be bound. There are none
// where the address overlaps with one that stays: the kernel, once it has let two
// sockets share a port, might not refuse a third one.
func (n *neighbours) replaceable(a sock.Addr) []*sock.Listener {
	leaving := n.leaving[placeOf(a)]
	if len(leaving) == 0 || n.inTheWay(a) != nil {
		return nil
	}
	return leaving
}
