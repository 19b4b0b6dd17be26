package upstream

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// target is where an endpoint is reached. It is comparable; two are equal when
// a connect(2) would go to the same place.
type target struct {
	network  string // "tcp" or "unix", as package net knows it
	address  string // likewise: "10.0.0.1:80", "/run/x.sock", "@abstract"
	family   int    // AF_INET, AF_INET6 or AF_UNIX
	sockaddr string // the bytes for connect(2)
}

func (t target) String() string { return t.network + " " + t.address }

// seed places the target for source_hash. It depends on the address only.
func (t target) seed() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.String()))
	return mix(h.Sum64())
}

// tcpTarget fails when the zone of an IPv6 address is no interface of this host.
func tcpTarget(addr netip.Addr, port uint16) (target, error) {
	addr = addr.Unmap()
	t := target{network: "tcp", address: netip.AddrPortFrom(addr, port).String()}
	if addr.Is4() {
		t.family, t.sockaddr = unix.AF_INET, sockaddr4(addr, port)
		return t, nil
	}
	scope, err := zoneIndex(addr.Zone())
	if err != nil {
		return target{}, err
	}
	t.family, t.sockaddr = unix.AF_INET6, sockaddr6(addr, port, scope)
	return t, nil
}

// unixTarget is a Unix socket; "@name" is an abstract one. It fails when the
// path is empty or longer than the kernel takes.
func unixTarget(path string) (target, error) {
	const room = unix.SizeofSockaddrUnix - 2 // sun_path, with the NUL before or behind
	if path == "" || len(path) > room-1 && path[0] != '@' || len(path) > room {
		return target{}, fmt.Errorf("a Unix socket path has 1 to %d bytes, this one has %d", room-1, len(path))
	}
	return target{
		network:  "unix",
		address:  path,
		family:   unix.AF_UNIX,
		sockaddr: sockaddrUnix(path),
	}, nil
}

// sockaddr4 is a struct sockaddr_in, ip(7).
func sockaddr4(addr netip.Addr, port uint16) string {
	raw := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
	raw = binary.BigEndian.AppendUint16(raw, port)
	raw = append(raw, addr.AsSlice()...)
	raw = append(raw, make([]byte, 8)...) // sin_zero
	return string(raw)
}

// sockaddr6 is a struct sockaddr_in6, ipv6(7).
func sockaddr6(addr netip.Addr, port uint16, scope uint32) string {
	raw := binary.NativeEndian.AppendUint16(nil, unix.AF_INET6)
	raw = binary.BigEndian.AppendUint16(raw, port)
	raw = append(raw, make([]byte, 4)...) // sin6_flowinfo
	raw = append(raw, addr.AsSlice()...)
	raw = binary.NativeEndian.AppendUint32(raw, scope)
	return string(raw)
}

// sockaddrUnix is a struct sockaddr_un, unix(7).
func sockaddrUnix(path string) string {
	raw := binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX)
	if path[0] == '@' {
		// The NUL in front says abstract; the length alone ends the name.
		raw = append(raw, 0)
		return string(append(raw, path[1:]...))
	}
	raw = append(raw, path...)
	return string(append(raw, 0))
}

// zoneIndex is the index of the interface that an IPv6 zone names or numbers;
// 0 for no zone.
func zoneIndex(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	ifi, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fmt.Errorf("no network interface %s", zone)
	}
	return uint32(ifi.Index), nil
}
