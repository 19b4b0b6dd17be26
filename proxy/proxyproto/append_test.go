package proxyproto

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAppendWritesWhatHAProxyWrites(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		version  int
		src, dst string
	}{
		"haproxy-v1-tcp4": {1, "127.0.0.1:41346", "127.0.0.1:18101"},
		"haproxy-v1-tcp6": {1, "[::1]:53182", "[::1]:18101"},
		"haproxy-v1-unix": {1, "", ""},
		"haproxy-v2-tcp4": {2, "127.0.0.1:50686", "127.0.0.1:18102"},
		"haproxy-v2-tcp6": {2, "[::1]:60326", "[::1]:18102"},
		"haproxy-v2-unix": {2, "", ""},
	} {
		src, _ := netip.ParseAddrPort(test.src)
		dst, _ := netip.ParseAddrPort(test.dst)
		assert.Equal(t, capture(t, name), Append(nil, test.version, src, dst), name)
	}
}

func TestAppendOfAddressesThatDoNotMatch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		src, dst string
		want     string
	}{
		"IPv4 to IPv6":        {"192.0.2.1:1", "[2001:db8::2]:2", "PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 1 2\r\n"},
		"IPv6 to IPv4":        {"[2001:db8::1]:1", "192.0.2.2:2", "PROXY TCP6 2001:db8::1 ::ffff:192.0.2.2 1 2\r\n"},
		"both IPv6-mapped":    {"[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:2", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"},
		"link-local client":   {"[fe80::1%eth0]:1", "[fe80::2%eth0]:2", "PROXY TCP6 fe80::1 fe80::2 1 2\r\n"},
		"Unix client to IPv4": {"", "192.0.2.2:2", "PROXY UNKNOWN\r\n"},
		"IPv4 client to Unix": {"192.0.2.1:1", "", "PROXY UNKNOWN\r\n"},
	} {
		src, _ := netip.ParseAddrPort(test.src)
		dst, _ := netip.ParseAddrPort(test.dst)
		assert.Equal(t, test.want, string(Append(nil, 1, src, dst)), name)

		h, _, err := Parse(Append(nil, 2, src, dst))
		require.NoError(t, err, name)
		assert.Equal(t, !src.IsValid() || !dst.IsValid(), h.Local, name)
		if !h.Local {
			assert.Equal(t, src.Addr().Unmap().WithZone(""), h.Source.Addr(), name)
			assert.Equal(t, dst.Addr().Unmap().WithZone(""), h.Destination.Addr(), name)
		}
	}
}
