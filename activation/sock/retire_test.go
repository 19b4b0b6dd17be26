package sock_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func portOf(l *sock.Listener) string {
	return fmt.Sprint(l.Addr().AddrPort.Port())
}

// acceptOne takes who is first in the queue of a listener; "" = nobody.
func acceptOne(t *testing.T, l *sock.Listener) (client string) {
	t.Helper()
	raw, peer, err := unix.Accept4(l.FD.Raw(), unix.SOCK_CLOEXEC)
	if errors.Is(err, unix.EAGAIN) {
		return ""
	}
	require.NoError(t, err)
	require.NoError(t, unix.Close(raw))
	switch peer := peer.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(peer.Addr), uint16(peer.Port)).String()
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(peer.Addr).Unmap(), uint16(peer.Port)).String()
	}
	return "a Unix client"
}

// queue connects to a listener and stays in its queue.
func queue(t *testing.T, network, address string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func init() {
	children["retire"] = func() int { // without any rights
		l, err := sock.Listen(everyAddress(0), sock.Options{})
		if err != nil {
			fmt.Print(err)
			return 1
		}
		fmt.Print(l.Retire(), l.Reachable(), dials(l, "127.0.0.1"))
		return 0
	}
}

func TestRetireNeedsNoRights(t *testing.T) {
	assert.Equal(t, "<nil> false false", child(t, "retire"))
}

func TestARetiredSocketKeepsItsQueueAndRefusesNewClientsAtOnce(t *testing.T) {
	for _, a := range []sock.Addr{tcp("127.0.0.1:0"), tcp("[::1]:0"), sock.Unix(socketPath(t))} {
		l := mustListen(t, a, sock.Options{})
		network, address := l.Addr().Network, l.Addr().AddrPort.String()
		if network == "unix" {
			address = l.Addr().Path
		}
		waiting := queue(t, network, address)
		copied := comeBack(t, l, l.StoreName()) // as a store has: it stays open

		require.NoError(t, l.Retire())
		assert.False(t, l.Reachable())
		_, err := net.Dial(network, address)
		require.Error(t, err)
		client := acceptOne(t, l)
		require.NotEmpty(t, client)
		if network != "unix" {
			assert.Equal(t, waiting.LocalAddr().String(), client)
		}
		assert.Empty(t, acceptOne(t, l))
		require.NoError(t, copied.Close())
	}
}

func TestARetiredSocketIsKnownAfterARestart(t *testing.T) {
	l := mustListen(t, tcp("127.0.0.1:0"), sock.Options{})
	require.NoError(t, l.Retire())
	back := comeBack(t, l, l.StoreName())
	assert.True(t, back.Info.Retired)
	assert.False(t, back.Reachable())
	assert.Equal(t, l.Addr().String(), back.Info.String(), "it is called as before")
}

func TestARetiredUDPSocketKeepsItsQueueAndHearsNothingMore(t *testing.T) {
	l := mustListen(t, udp("127.0.0.1:0"), sock.Options{})
	c, err := net.Dial("udp", l.Addr().AddrPort.String())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("queued"))
	require.NoError(t, err)
	require.NoError(t, l.Retire())
	_, _ = c.Write([]byte("late"))

	text := make([]byte, 16)
	n, err := unix.Read(l.FD.Raw(), text)
	require.NoError(t, err)
	assert.Equal(t, "queued", string(text[:n]))
	_, err = unix.Read(l.FD.Raw(), text)
	assert.ErrorIs(t, err, unix.EAGAIN)
}

func TestWhatCannotBeRetiredSaysSo(t *testing.T) {
	path := socketPath(t)
	l := mustListen(t, sock.Unix(path), sock.Options{})
	for _, x := range []*sock.Listener{
		mustListen(t, sock.Unix("@"+socketPath(t)), sock.Options{}),
		comeBack(t, l, ""), // the file is another's
	} {
		require.ErrorIs(t, x.Retire(), errors.ErrUnsupported)
		assert.True(t, x.Reachable())
	}
	assert.FileExists(t, path)
}

func TestRetireAfterTheFileHasGone(t *testing.T) {
	path := socketPath(t)
	l := mustListen(t, sock.Unix(path), sock.Options{})
	require.NoError(t, os.Remove(path))
	require.NoError(t, l.Retire())
	require.NoError(t, l.Close())
}
