package sock

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

func listenIP(a Addr, beside []*Listener) (*Listener, error) {
	s := ipSocket{Addr: a, rivals: inTheWay(beside, a)}
	if host := a.AddrPort.Addr(); host.IsValid() {
		return s.listen(host, host.Is6())
	}
	l, err := s.listen(netip.IPv6Unspecified(), false)
	if errors.Is(err, unix.EAFNOSUPPORT) { // ipv6.disable=1, RestrictAddressFamilies=
		return s.listen(netip.IPv4Unspecified(), false)
	}
	return l, err
}

// ipSocket is a TCP or UDP socket to be made.
type ipSocket struct {
	Addr
	rivals []*Listener // old sockets that are in its way
}

func (s ipSocket) listen(host netip.Addr, v6only bool) (*Listener, error) {
	sa, err := sockaddr(host, int(s.AddrPort.Port()))
	if err != nil {
		return nil, err
	}
	family, typ, protocol := unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP
	if host.Is6() {
		family = unix.AF_INET6
	}
	if s.isUDP() {
		typ, protocol = unix.SOCK_DGRAM, unix.IPPROTO_UDP
	}
	fd, err := socket(family, typ, protocol)
	if err != nil {
		return nil, err
	}
	l, err := s.bind(fd, sa, v6only)
	if err != nil {
		return nil, errors.Join(err, fd.Close())
	}
	return l, nil
}

func (s ipSocket) bind(fd *FD, sa unix.Sockaddr, v6only bool) (*Listener, error) {
	// A TCP port whose last connections are in TIME_WAIT is free for a listener.
	// UDP has no such state, and there the option would let another program bind
	// the same address and take the datagrams.
	if !s.isUDP() {
		if err := unix.SetsockoptInt(fd.Raw(), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return nil, fmt.Errorf("set SO_REUSEADDR: %w", err)
		}
		if err := InlineUrgent(fd.Raw()); err != nil {
			return nil, err
		}
	}
	if _, ok := sa.(*unix.SockaddrInet6); ok {
		// Always set: the default is the administrator's, net.ipv6.bindv6only.
		if err := unix.SetsockoptInt(fd.Raw(), unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, boolInt(v6only)); err != nil {
			return nil, fmt.Errorf("set IPV6_V6ONLY: %w", err)
		}
	}
	err := unix.Bind(fd.Raw(), sa)
	if errors.Is(err, unix.EADDRINUSE) && len(s.rivals) > 0 {
		unshare, shareErr := share(fd, s.rivals)
		if shareErr != nil {
			return nil, shareErr
		}
		defer unshare()
		err = unix.Bind(fd.Raw(), sa)
	}
	if err != nil {
		return nil, err
	}
	if s.isUDP() {
		return newListener(fd)
	}
	// Two that start together may both have bound, thanks to SO_REUSEADDR. The
	// second listen then fails with EADDRINUSE.
	return listen(fd)
}

func (s ipSocket) isUDP() bool { return s.Network == "udp" }

func sockaddr(addr netip.Addr, port int) (unix.Sockaddr, error) {
	if addr.Is4() {
		return &unix.SockaddrInet4{Addr: addr.As4(), Port: port}, nil
	}
	zone, err := zoneID(addr.Zone())
	if err != nil {
		return nil, err
	}
	return &unix.SockaddrInet6{Addr: addr.As16(), Port: port, ZoneId: zone}, nil
}

// zoneID is the index of an interface that is given by name or by index.
func zoneID(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if ifc, err := net.InterfaceByName(zone); err == nil {
		return uint32(ifc.Index), nil
	}
	id, err := strconv.ParseUint(zone, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("interface %q: %w", zone, unix.ENODEV)
	}
	return uint32(id), nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
