package sock

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

func listenTCP(a Addr) (*Listener, error) {
	addr, port := a.AddrPort.Addr(), int(a.AddrPort.Port())
	if addr.IsValid() {
		return listenIP(addr, port, addr.Is6())
	}
	l, err := listenIP(netip.IPv6Unspecified(), port, false)
	if errors.Is(err, unix.EAFNOSUPPORT) { // ipv6.disable=1, RestrictAddressFamilies=
		return listenIP(netip.IPv4Unspecified(), port, false)
	}
	return l, err
}

func listenIP(addr netip.Addr, port int, v6only bool) (*Listener, error) {
	sa, err := sockaddr(addr, port)
	if err != nil {
		return nil, err
	}
	family := unix.AF_INET
	if addr.Is6() {
		family = unix.AF_INET6
	}
	fd, err := socket(family, unix.IPPROTO_TCP)
	if err != nil {
		return nil, err
	}
	l, err := bindTCP(fd, sa, v6only)
	if err != nil {
		return nil, errors.Join(err, fd.Close())
	}
	return l, nil
}

func bindTCP(fd *FD, sa unix.Sockaddr, v6only bool) (*Listener, error) {
	// A port whose last connections are in TIME_WAIT is free for a listener.
	if err := unix.SetsockoptInt(fd.Raw(), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return nil, fmt.Errorf("set SO_REUSEADDR: %w", err)
	}
	if _, ok := sa.(*unix.SockaddrInet6); ok {
		// Always set: the default is the administrator's, net.ipv6.bindv6only.
		if err := unix.SetsockoptInt(fd.Raw(), unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, boolInt(v6only)); err != nil {
			return nil, fmt.Errorf("set IPV6_V6ONLY: %w", err)
		}
	}
	if err := unix.Bind(fd.Raw(), sa); err != nil {
		return nil, err
	}
	// Two that start together may both have bound, thanks to SO_REUSEADDR. The
	// second listen then fails with EADDRINUSE.
	return listen(fd)
}

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
