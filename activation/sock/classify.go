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

	// Two IP sockets can have one Addr and not share their clients. These tell
	// them apart; for a Unix socket with a path they are zero.
	Device     string // the only interface that it hears (SO_BINDTODEVICE), if the Addr has it not as zone; "" = all
	OtherNetNS bool   // it is in another network name space than this process; false before Linux 5.14
	Retired    bool   // Listener.Retire has taken it out of the way of new clients
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
	if i.Family == unix.AF_INET || i.Family == unix.AF_INET6 {
		i.Device, i.Retired = device(fd, i.Addr)
	}
	if !i.Addr.HasFile() {
		i.OtherNetNS = inOtherNetNS(fd)
	}
	return i, nil
}

// String says what the socket is, for people: "tcp 127.0.0.1:80", with a device
// "tcp 0.0.0.0:80%eth1", or the family and type of one without an Addr.
func (i Info) String() string {
	if i.Addr == (Addr{}) {
		return fmt.Sprintf("socket of family %s, type %s, protocol %d",
			name(families, i.Family), name(types, i.Type), i.Protocol)
	}
	s := i.Addr.String()
	if i.Device != "" {
		s += "%" + i.Device
	}
	if i.OtherNetNS {
		s += " in another network name space"
	}
	return s
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
		return UDP(ap)
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
