package proxyproto

import (
	"net"
	"net/netip"
)

// Header is what a PROXY header says of the connection it stands in front of.
type Header struct {
	// Version is 1 or 2.
	Version int
	// Local: the header names no addresses that could be used; those of the
	// connection itself count. That is so for LOCAL (the sender's own health
	// checks), for UNKNOWN and UNSPEC, and for clients of a Unix socket.
	Local bool
	// Source is the client and Destination what it connected to, never in
	// IPv6-mapped form. Both are zero when Local.
	Source, Destination netip.AddrPort
}

// addrPort is the zero AddrPort for what is not an IP address.
func addrPort(a net.Addr) netip.AddrPort {
	var ap netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
