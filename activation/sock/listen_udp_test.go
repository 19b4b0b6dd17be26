package sock_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// hears tells whether a datagram to the address arrives at the socket.
func hears(t *testing.T, l *sock.Listener, to string) bool {
	t.Helper()
	c, err := net.Dial("udp", to)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	const patience = 100 // ms; a datagram over loopback is there when write returns
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(l.FD.Raw()), Events: unix.POLLIN}}, patience)
	require.NoError(t, err)
	if n == 0 {
		return false
	}
	n, err = unix.Read(l.FD.Raw(), make([]byte, 8))
	require.NoError(t, err)
	return n == 1
}

func TestListenUDPFamilies(t *testing.T) {
	for _, tt := range []struct {
		addr       sock.Addr
		on4, on6   bool
		wantV6Only bool
	}{
		{udp("127.0.0.1:0"), true, false, false},
		{udp("0.0.0.0:0"), true, false, false},
		{udp("[::]:0"), false, true, true},
		{sock.UDP(everyAddress(0).AddrPort), true, true, false},
	} {
		t.Run(tt.addr.String(), func(t *testing.T) {
			l := mustListen(t, tt.addr, sock.Options{})
			assert.Equal(t, unix.SOCK_DGRAM, l.Info.Type)
			assert.Equal(t, "udp", l.Addr().Network)
			assert.Equal(t, tt.wantV6Only, l.Info.V6Only)
			port := portOf(l)
			assert.Equal(t, tt.on4, hears(t, l, "127.0.0.1:"+port))
			assert.Equal(t, tt.on6, hears(t, l, "[::1]:"+port))
		})
	}
}

func TestNoSecondProgramTakesTheDatagrams(t *testing.T) {
	l := mustListen(t, udp("127.0.0.1:0"), sock.Options{})
	_, err := sock.Listen(l.Addr(), sock.Options{})
	require.ErrorIs(t, err, unix.EADDRINUSE)

	raw, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	thief := sock.NewFD(raw)
	defer thief.Close()
	require.NoError(t, unix.SetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	err = unix.Bind(raw, &unix.SockaddrInet4{Addr: loopback4, Port: int(l.Addr().AddrPort.Port())})
	assert.ErrorIs(t, err, unix.EADDRINUSE)
}
