package daemon

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/proxy/config"
)

func TestEveryConfiguredAddressIsOneSocket(t *testing.T) {
	for text, want := range map[string]sock.Addr{
		"tcp://127.0.0.1:80": sock.TCP(netip.MustParseAddrPort("127.0.0.1:80")),
		"tcp://[::1]:80":     sock.TCP(netip.MustParseAddrPort("[::1]:80")),
		"tcp://:80":          sock.TCP(netip.AddrPortFrom(netip.Addr{}, 80)),
		"unix:///run/x":      sock.Unix("/run/x"),
		"unix://@x":          sock.Unix("@x"),
		"udp://127.0.0.1:53": sock.UDP(netip.MustParseAddrPort("127.0.0.1:53")),
	} {
		a, err := config.ParseAddress(text)
		require.NoError(t, err)
		assert.Equal(t, want, socketAddr(a), text)
	}
}
