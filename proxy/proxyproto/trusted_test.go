package proxyproto

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOnlyClientsInTheNetworksAreTrusted(t *testing.T) {
	t.Parallel()
	networks := []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("fe80::/10"),
		netip.MustParsePrefix("2001:db8::1/128"),
	}
	for client, want := range map[string]bool{
		"10.1.2.3":         true,
		"::ffff:10.1.2.3":  true,
		"11.0.0.1":         false,
		"::ffff:11.0.0.1":  false,
		"fe80::1%eth0":     true,
		"2001:db8::1":      true,
		"2001:db8::2":      false,
		"::a01:203":        false, // the bits of 10.1.2.3, not mapped
		"64:ff9b::a01:203": false,
	} {
		assert.Equal(t, want, Trusted(networks, netip.MustParseAddr(client)), client)
	}
	assert.False(t, Trusted(networks, netip.Addr{}), "Unix client")
	assert.False(t, Trusted(nil, netip.MustParseAddr("10.1.2.3")), "no networks")
	everyIPv6 := []netip.Prefix{netip.MustParsePrefix("::/0")}
	assert.False(t, Trusted(everyIPv6, netip.MustParseAddr("::ffff:10.1.2.3")), "IPv4 client of a dual-stack socket")
}
