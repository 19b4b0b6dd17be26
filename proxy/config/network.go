package config

import (
	"net/netip"
	"strings"
)

// parseNetwork reads a network in CIDR form, or one address, which is a network
// of its own. Bits below the mask are cleared. An IPv4 network mapped into IPv6
// becomes IPv4, since that is how the addresses of clients are compared.
func parseNetwork(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, refuse(`write "10.0.0.0/8" or "2001:db8::1"`, "%s is neither a network nor an IP address", short(text))
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, refuse(`write "10.0.0.0/8" or "2001:db8::/32"`, "%s is not a network", short(text))
	}
	if p.Addr().Is4In6() {
		const mapped = 96
		if p.Bits() < mapped {
			return netip.Prefix{}, refuse("", "the mask of %s is shorter than the %d bits that map IPv4 into IPv6", short(text), mapped)
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p.Masked(), nil
}
