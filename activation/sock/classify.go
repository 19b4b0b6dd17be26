package sock

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// Info is what the kernel tells about a socket.
type Info struct {
	Family    int    // AF_INET, AF_INET6, AF_UNIX, …
	Type      int    // SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET, …
	Protocol  int    // IPPROTO_TCP, IPPROTO_MPTCP, IPPROTO_UDP, …; 0 for Unix sockets
	Listening bool   // listen(2) was called (SO_ACCEPTCONN)
	Connected bool   // it has a peer
	V6Only    bool   // an AF_INET6 socket without IPv4 (IPV6_V6ONLY)
	Addr      Addr   // where it is bound; zero for other families than IP and Unix
	Cookie    uint64 // SO_COOKIE: equal for all descriptors of one socket, never used again
}

// Classify looks at a descriptor without changing it. What is not a socket
// gives a [NotSocketError]; a number that is not open gives EBADF.
func Classify(fd int) (Info, error) {
	var i Info
	options := []struct {
		name string
		opt  int
		to   *int
	}{
		{"SO_DOMAIN", unix.SO_DOMAIN, &i.Family},
		{"SO_TYPE", unix.SO_TYPE, &i.Type},
		{"SO_PROTOCOL", unix.SO_PROTOCOL, &i.Protocol},
	}
	for _, o := range options {
		v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, o.opt)
		if errors.Is(err, unix.ENOTSOCK) {
			return Info{}, &NotSocketError{Kind: kind(fd)}
		}
		if err != nil {
			return Info{}, fmt.Errorf("%s of descriptor %d: %w", o.name, fd, err)
		}
		*o.to = v
	}

	var err error
	if i.Cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE); err != nil {
		return Info{}, fmt.Errorf("SO_COOKIE of descriptor %d: %w", fd, err)
	}
	// Families that cannot listen may refuse the question: no is the answer.
	accepts, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	i.Listening = err == nil && accepts != 0
	_, err = unix.Getpeername(fd)
	i.Connected = err == nil
	if i.Family == unix.AF_INET6 {
		only, err := unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
		i.V6Only = err == nil && only != 0
	}

	bound, err := unix.Getsockname(fd)
	if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) { // a family that x/sys does not know
		return Info{}, fmt.Errorf("address of descriptor %d: %w", fd, err)
	}
	i.Addr = i.identity(bound)
	return i, nil
}

// Serves tells whether clients of address a arrive at this socket. Beside the
// equal address these are:
//   - every address of the host and a port: any wildcard socket of that port;
//   - 0.0.0.0: also a socket bound to [::] that takes IPv4 too, as those of
//     socket units mostly do. The kernel would refuse a second one.
func (i Info) Serves(a Addr) bool {
	if i.Addr == a {
		return true
	}
	if i.Addr.Network != a.Network || a.isUnix() || i.Addr.AddrPort.Port() != a.AddrPort.Port() {
		return false
	}
	have, want := i.Addr.AddrPort.Addr(), a.AddrPort.Addr()
	if !have.IsUnspecified() {
		return false
	}
	if !want.IsValid() {
		return true
	}
	return want == netip.IPv4Unspecified() && have == netip.IPv6Unspecified() && !i.V6Only
}

// String says what the socket is, for people: "tcp 127.0.0.1:80", or the family
// and type of one without an Addr.
func (i Info) String() string {
	if i.Addr != (Addr{}) {
		return i.Addr.String()
	}
	return fmt.Sprintf("socket of family %s, type %s, protocol %d",
		name(families, i.Family), name(types, i.Type), i.Protocol)
}

// identity is the Addr of a socket of this kind that is bound to sa.
func (i Info) identity(sa unix.Sockaddr) Addr {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return i.ipIdentity(netip.AddrFrom4(sa.Addr), sa.Port)
	case *unix.SockaddrInet6:
		return i.ipIdentity(netip.AddrFrom16(sa.Addr).WithZone(zoneName(sa.ZoneId)), sa.Port)
	case *unix.SockaddrUnix:
		a := Unix(sa.Name)
		if sa.Name == "@" { // how x/sys tells an unbound one
			a.Path = ""
		}
		switch i.Type {
		case unix.SOCK_DGRAM:
			a.Network = "unixgram"
		case unix.SOCK_SEQPACKET:
			a.Network = "unixpacket"
		}
		return a
	}
	return Addr{}
}

func (i Info) ipIdentity(addr netip.Addr, port int) Addr {
	ap := netip.AddrPortFrom(addr, uint16(port))
	switch {
	case i.Type == unix.SOCK_STREAM && (i.Protocol == unix.IPPROTO_TCP || i.Protocol == unix.IPPROTO_MPTCP):
		return TCP(ap)
	case i.Type == unix.SOCK_DGRAM && i.Protocol == unix.IPPROTO_UDP:
		return Addr{Network: "udp", AddrPort: canonical(ap)}
	}
	return Addr{} // SCTP, ICMP, raw sockets: no address of ours
}

// zoneName is the interface of a link-local address, as a name where there is
// one, so that it compares equal to an address that a person wrote.
func zoneName(id uint32) string {
	if id == 0 {
		return ""
	}
	if ifc, err := net.InterfaceByIndex(int(id)); err == nil {
		return ifc.Name
	}
	return strconv.FormatUint(uint64(id), 10)
}

var families = map[int]string{
	unix.AF_INET: "IPv4", unix.AF_INET6: "IPv6", unix.AF_UNIX: "Unix", unix.AF_NETLINK: "netlink",
	unix.AF_PACKET: "packet", unix.AF_VSOCK: "vsock", unix.AF_ALG: "alg", unix.AF_XDP: "xdp",
}

var types = map[int]string{
	unix.SOCK_STREAM: "stream", unix.SOCK_DGRAM: "datagram", unix.SOCK_SEQPACKET: "seqpacket", unix.SOCK_RAW: "raw",
}

func name(names map[int]string, n int) string {
	if s, ok := names[n]; ok {
		return s
	}
	return strconv.Itoa(n)
}
