package sock

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// ServedAddrs are the addresses whose clients all arrive at the socket, if it gets
// any. The first one is its own. A wildcard socket has beside it:
//   - every address of the host;
//   - 0.0.0.0, if it is bound to [::] and takes IPv4 too, as those of socket units
//     mostly do. The kernel would refuse a second one.
func (i Info) ServedAddrs() []Addr {
	addrs := []Addr{i.Addr}
	if i.Addr.isUnix() || !i.Addr.AddrPort.Addr().IsUnspecified() {
		return addrs
	}
	addrs = append(addrs, i.Addr.at(netip.Addr{}))
	if i.Addr.AddrPort.Addr().Is6() && !i.V6Only {
		addrs = append(addrs, i.Addr.at(netip.IPv4Unspecified()))
	}
	return addrs
}

// ListenAddrs are the addresses for which [Listen] makes a socket that takes just
// the same clients as this one. It is mostly its own. A socket of [::] that takes
// IPv4 too is that of every address, and so is one of 0.0.0.0 where there is no
// IPv6.
func (i Info) ListenAddrs() []Addr {
	every := i.Addr.at(netip.Addr{})
	switch {
	case i.Addr.AddrPort.Addr() == netip.IPv6Unspecified() && !i.V6Only:
		return []Addr{every}
	case i.Addr.AddrPort.Addr() == netip.IPv4Unspecified() && !hasIPv6():
		return []Addr{i.Addr, every}
	}
	return []Addr{i.Addr}
}

// at is the address with another host.
func (a Addr) at(host netip.Addr) Addr {
	a.AddrPort = netip.AddrPortFrom(host, a.AddrPort.Port())
	return a
}

// hasIPv6 tells whether Listen finds IPv6 in this kernel, and allowed.
func hasIPv6() bool {
	fd, err := socket(unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP)
	if err != nil {
		return !errors.Is(err, unix.EAFNOSUPPORT)
	}
	_ = fd.Close() // nothing was done with it
	return true
}
