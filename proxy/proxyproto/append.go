package proxyproto

import (
	"net"
	"net/netip"

	pp "github.com/pires/go-proxyproto"
)

// Append appends the header of version 1 or 2 for a client src that connected
// to dst. Of an IPv4 and an IPv6 address the former is written in IPv6-mapped
// form. When either is not an IP address, as with a Unix socket, the header
// says so: UNKNOWN in version 1, LOCAL in version 2.
func Append(b []byte, version int, src, dst netip.AddrPort) []byte {
	header := pp.HeaderProxyFromAddrs(byte(version), net.TCPAddrFromAddrPort(src), net.TCPAddrFromAddrPort(dst))
	// Format fails for addresses that do not fit the family only, and the
	// family was just chosen to fit.
	text, _ := header.Format()
	return append(b, text...)
}
