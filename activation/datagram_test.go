package activation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

var anyUDP = sock.UDP(anyPort.AddrPort)

func TestDatagramSocketsOfEachOriginAreTaken(t *testing.T) {
	named, unnamed := offer(t, "dns", anyUDP), offer(t, "holdfast.socket", anyUDP)
	stored := holdBound(t, anyUDP)
	wants := []activation.Want{want("dns", addr(t, unnamed), stored.Addr(), anyUDP, anyPort)}
	expect := []string{
		"systemd " + addr(t, named).String(), "systemd " + addr(t, unnamed).String(), "store " + stored.Addr().String(),
	}
	r := mustAcquire(t, wants, systemd(t, named, unnamed), restart(t, stored))
	require.Len(t, r.Listeners[0].Sockets, 5)
	assert.Equal(t, expect, sockets(r.Listeners[0])[:3])
	assert.Equal(t, unix.SOCK_DGRAM, r.Listeners[0].Sockets[3].Info.Type)
	assert.Equal(t, unix.SOCK_STREAM, r.Listeners[0].Sockets[4].Info.Type)
	assert.Empty(t, r.Unwanted)
}

func TestDatagramSocketsThatNoListenerAskedFor(t *testing.T) {
	connected := offer(t, "dns", anyUDP)
	require.NoError(t, unix.Connect(connected.FD.Raw(), &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: 9}))
	unbound, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	r := mustAcquire(t, []activation.Want{
		want("web", anyPort), {Name: "default", TakesAny: true, Addrs: []sock.Addr{anyPort}}, want("dns", anyUDP),
	}, systemd(t,
		offer(t, "web", anyUDP),
		offer(t, "holdfast.socket", anyUDP),
		connected,
		activation.Offer{Name: "dns", FD: sock.NewFD(unbound)},
		offerSocket(t, "dns", unix.SOCK_DGRAM, &unix.SockaddrUnix{Name: "@" + t.TempDir()}),
	))
	assert.Equal(t, []string{
		"web: a datagram socket, and listener web has no udp address",
		"holdfast.socket: no listener has this name or address",
		"dns: connected to one peer",
		"dns: not bound",
		"dns: not a stream socket",
	}, reasons(r))
}
