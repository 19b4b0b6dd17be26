package proxyproto

import "net/netip"

// Trusted tells whether a client may name other addresses than its own: it is
// in one of the networks. A client that comes as an IPv6-mapped IPv4 address, as
// all do on a socket that is bound to [::], is looked for as IPv4. The zone of a
// link-local client does not count. The zero Addr (a Unix socket) is in none.
func Trusted(networks []netip.Prefix, client netip.Addr) bool {
	client = client.Unmap().WithZone("")
	for _, network := range networks {
		if network.Contains(client) {
			return true
		}
	}
	return false
}
