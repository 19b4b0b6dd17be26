package sock_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func tcp(s string) sock.Addr {
	return sock.TCP(netip.MustParseAddrPort(s))
}

func udp(s string) sock.Addr {
	return sock.UDP(netip.MustParseAddrPort(s))
}

func everyAddress(port uint16) sock.Addr {
	return sock.TCP(netip.AddrPortFrom(netip.Addr{}, port))
}

func TestAddrString(t *testing.T) {
	for _, tt := range []struct {
		addr sock.Addr
		want string
	}{
		{tcp("127.0.0.1:8080"), "tcp 127.0.0.1:8080"},
		{tcp("0.0.0.0:80"), "tcp 0.0.0.0:80"},
		{tcp("[::]:80"), "tcp [::]:80"},
		{tcp("[fe80::1%eth0]:80"), "tcp [fe80::1%eth0]:80"},
		{tcp("[::ffff:10.0.0.1]:80"), "tcp 10.0.0.1:80"},
		{everyAddress(80), "tcp :80"},
		{udp("[::]:53"), "udp [::]:53"},
		{sock.UDP(netip.AddrPortFrom(netip.Addr{}, 53)), "udp :53"},
		{sock.Unix("/run/x.sock"), "unix /run/x.sock"},
		{sock.Unix("@abstract"), "unix @abstract"},
		{sock.Unix(""), "unix without a path"},
		{sock.Addr{}, "no address"},
	} {
		assert.Equal(t, tt.want, tt.addr.String())
	}
}

func TestAddrsOfOneQueueAreEqual(t *testing.T) {
	assert.Equal(t, tcp("10.0.0.1:80"), tcp("[::ffff:10.0.0.1]:80"))
	assert.Equal(t, tcp("0.0.0.0:80"), tcp("[::ffff:0.0.0.0]:80"))
	assert.Equal(t, udp("10.0.0.1:53"), udp("[::ffff:10.0.0.1]:53"))
	assert.Equal(t, sock.Unix("/run/x.sock"), sock.Unix("/run//a/../x.sock"))

	assert.NotEqual(t, tcp("0.0.0.0:80"), tcp("[::]:80"))
	assert.NotEqual(t, tcp("[::]:80"), everyAddress(80))
	assert.NotEqual(t, sock.Unix("@x"), sock.Unix("./@x"))
	assert.NotEqual(t, tcp("10.0.0.1:53"), udp("10.0.0.1:53"))
}
