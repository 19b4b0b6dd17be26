package sock_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func at(a sock.Addr, v6only bool) sock.Info {
	return sock.Info{Addr: a, V6Only: v6only}
}

func TestServedAddrs(t *testing.T) {
	everyUDP := sock.UDP(netip.AddrPortFrom(netip.Addr{}, 53))
	for _, tt := range []struct {
		socket sock.Info
		want   []sock.Addr
	}{
		{at(tcp("127.0.0.1:80"), false), []sock.Addr{tcp("127.0.0.1:80")}},
		{at(tcp("[::1]:80"), false), []sock.Addr{tcp("[::1]:80")}},
		{at(tcp("0.0.0.0:80"), false), []sock.Addr{tcp("0.0.0.0:80"), everyAddress(80)}},
		{at(tcp("[::]:80"), true), []sock.Addr{tcp("[::]:80"), everyAddress(80)}},
		// A queue of 127.0.0.1:80 beside the wildcard's is another one.
		{at(tcp("[::]:80"), false), []sock.Addr{tcp("[::]:80"), everyAddress(80), tcp("0.0.0.0:80")}},
		{at(udp("[::]:53"), false), []sock.Addr{udp("[::]:53"), everyUDP, udp("0.0.0.0:53")}},
		{at(sock.Unix("/run/a"), false), []sock.Addr{sock.Unix("/run/a")}},
		{sock.Info{}, []sock.Addr{{}}},
	} {
		assert.Equal(t, tt.want, tt.socket.ServedAddrs(), "%s v6only=%v", tt.socket, tt.socket.V6Only)
	}
}

func TestListenAddrs(t *testing.T) {
	for _, tt := range []struct {
		socket sock.Info
		want   sock.Addr
	}{
		{at(tcp("127.0.0.1:80"), false), tcp("127.0.0.1:80")},
		{at(tcp("0.0.0.0:80"), false), tcp("0.0.0.0:80")},
		{at(tcp("[::]:80"), true), tcp("[::]:80")},
		{at(tcp("[::]:80"), false), everyAddress(80)},
		{at(udp("[::]:53"), false), sock.UDP(netip.AddrPortFrom(netip.Addr{}, 53))},
		{at(sock.Unix("@a"), false), sock.Unix("@a")},
	} {
		assert.Equal(t, []sock.Addr{tt.want}, tt.socket.ListenAddrs(), "%s v6only=%v", tt.socket, tt.socket.V6Only)
	}
}

// What Listen makes for an address is found again by that address, by no other one.
func TestListenAddrsLeadBackToWhatListenWasAskedFor(t *testing.T) {
	for _, a := range []sock.Addr{
		tcp("127.0.0.1:0"), tcp("0.0.0.0:0"), tcp("[::1]:0"), tcp("[::]:0"), everyAddress(0),
		udp("127.0.0.1:0"), udp("[::]:0"), sock.Unix(socketPath(t)), sock.Unix("@" + socketPath(t)),
	} {
		l := mustListen(t, a, sock.Options{})
		if a.Network != "unix" {
			a.AddrPort = netip.AddrPortFrom(a.AddrPort.Addr(), l.Addr().AddrPort.Port())
		}
		assert.Equal(t, []sock.Addr{a}, l.Info.ListenAddrs())
	}
}

func init() {
	children["every address without IPv6"] = func() int {
		if err := refuseIPv6(); err != nil {
			fmt.Print("cannot install the filter: ", err)
			return 1
		}
		fmt.Print(at(tcp("0.0.0.0:80"), false).ListenAddrs())
		return 0
	}
}

func TestTheIPv4WildcardIsEveryAddressWhereThereIsNoIPv6(t *testing.T) {
	assert.Equal(t, "[tcp 0.0.0.0:80 tcp :80]", child(t, "every address without IPv6"))
}

func TestConflictsIsWhatTheKernelRefuses(t *testing.T) {
	free := mustListen(t, tcp("127.0.0.1:0"), sock.Options{})
	port := free.Addr().AddrPort.Port()
	_ = free.Close()
	var addrs []sock.Addr
	for _, host := range []string{"127.0.0.1", "127.0.0.2", "0.0.0.0", "::1", "::", ""} {
		ip, _ := netip.ParseAddr(host)
		ap := netip.AddrPortFrom(ip, port)
		addrs = append(addrs, sock.TCP(ap), sock.UDP(ap))
	}
	for _, have := range addrs {
		l := mustListen(t, have, sock.Options{})
		for _, want := range addrs {
			other, err := sock.Listen(want, sock.Options{})
			if err == nil {
				assert.NoError(t, other.Close())
			}
			assert.Equal(t, err != nil, l.Info.Conflicts(want), "%s beside %s: %v", want, have, err)
		}
		assert.NoError(t, l.Close())
	}

	unixSocket := sock.Info{Addr: sock.Unix("/run/a")}
	assert.True(t, unixSocket.Conflicts(sock.Unix("/run/a")))
	assert.False(t, unixSocket.Conflicts(sock.Unix("/run/b")))
	assert.False(t, sock.Info{Addr: tcp("0.0.0.0:80"), OtherNetNS: true}.Conflicts(tcp("0.0.0.0:80")))
}
