package daemon

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// occupied is a port that somebody has until release is called.
func occupied(t *testing.T) (wants []activation.Want, release func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return []activation.Want{{Name: "web", Addrs: []sock.Addr{sock.TCP(l.Addr().(*net.TCPAddr).AddrPort())}}}, func() { _ = l.Close() }
}

func TestAnAddressThatWasGivenUpJustNowIsWaitedFor(t *testing.T) {
	d := &daemon{until: t.Context()}
	d.sockets.leaving.last = time.Now()
	wants, release := occupied(t)
	time.AfterFunc(lateClose/20, release)
	got, err := d.acquire(wants, nil)
	require.NoError(t, err)
	require.NoError(t, got.Close())
}

func TestAnAddressOfSomebodyElseIsNotWaitedFor(t *testing.T) {
	wants, _ := occupied(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	d := &daemon{until: canceled}
	_, err := d.acquire(wants, nil)
	require.ErrorIs(t, err, unix.EADDRINUSE, "at once")

	d.sockets.leaving.last = time.Now()
	_, err = d.acquire(wants, nil)
	require.ErrorIs(t, err, context.Canceled, "a stop ends the wait")

	d.until = t.Context()
	d.sockets.leaving.last = time.Now().Add(-lateClose * 19 / 20)
	_, err = d.acquire(wants, nil)
	require.ErrorIs(t, err, unix.EADDRINUSE, "in the end")
}
