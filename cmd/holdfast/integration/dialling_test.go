package integration

import (
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

func TestClientWaitsForABackendThatStarts(t *testing.T) {
	server := testbed.TCP(t)
	route := testbed.Route{
		Name: "late", Listen: []string{testbed.TCP(t)}, Servers: []string{server},
		Upstream: `connect_retry = "30s"`,
	}
	holdfast := testbed.StartHoldfast(t, testbed.Config{Routes: []testbed.Route{route}})
	var waiting []stream
	for range 20 {
		conn := dial(t, route.Listen[0])
		_, err := io.WriteString(conn, "early\n")
		require.NoError(t, err)
		waiting = append(waiting, conn)
	}
	testbed.Eventually(t, patience, "a dial has failed", func() bool {
		return holdfast.Status(t).Upstreams[0].Servers[0].LastError != ""
	})
	listen(t, server, echo)
	for _, conn := range waiting {
		expect(t, conn, "early\n")
	}
	assert.Zero(t, holdfast.Status(t).Connections.Failed)
}

func TestClientIsToldWhenNoBackendComes(t *testing.T) {
	route := testbed.Route{
		Name: "never", Listen: []string{testbed.TCP(t)}, Servers: []string{testbed.TCP(t)},
		Upstream: `connect_retry = "300ms"`,
	}
	holdfast := testbed.StartHoldfast(t, testbed.Config{Routes: []testbed.Route{route}})
	_, err := io.ReadAll(dial(t, route.Listen[0]))
	require.ErrorIs(t, err, unix.ECONNRESET, "not a clean end, which would look like an empty answer")
	assert.EqualValues(t, 1, holdfast.Status(t).Connections.Failed)
}

func TestSecondServerTakesOverFromTheFirst(t *testing.T) {
	up := testbed.TCP(t)
	listen(t, up, echo)
	hole := blackHole(t)
	refusing := testbed.Route{
		Name: "refusing", Listen: []string{testbed.TCP(t)},
		Servers: []string{testbed.TCP(t), "unix:///nowhere/to/be/found.sock", up},
	}
	silent := testbed.Route{
		Name: "silent", Listen: []string{testbed.TCP(t)},
		Servers: []string{hole, up}, Upstream: `connect_timeout = "300ms"`,
	}
	holdfast := testbed.StartHoldfast(t, testbed.Config{Routes: []testbed.Route{refusing, silent}})
	for _, route := range []testbed.Route{refusing, silent} {
		t.Run(route.Name, func(t *testing.T) {
			for range 10 {
				requireEcho(t, dial(t, route.Listen[0]), "served\n")
			}
		})
	}
	s := holdfast.Status(t)
	assert.Zero(t, s.Connections.Failed)
	assert.Contains(t, s.Upstreams[1].Servers[0].LastError, "timed out", "connecting to the black hole")
}

// blackHole is an address that swallows SYNs: a listener whose accept queue is
// full.
func blackHole(t *testing.T) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(fd, 0))
	bound, err := unix.Getsockname(fd)
	require.NoError(t, err)
	for range 3 { // a queue of 0 holds one, and the kernel lets one more hang
		client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = unix.Close(client) })
		require.ErrorIs(t, unix.Connect(client, bound), unix.EINPROGRESS)
	}
	port := bound.(*unix.SockaddrInet4).Port
	return "tcp://" + netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port)).String()
}

func TestBlackHoleSwallowsConnections(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	hole := netip.MustParseAddrPort(testbed.HostPort(blackHole(t)))
	err = unix.Connect(fd, &unix.SockaddrInet4{Addr: hole.Addr().As4(), Port: int(hole.Port())})
	require.ErrorIs(t, err, unix.EINPROGRESS)
	ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(500*time.Millisecond/time.Millisecond))
	require.NoError(t, err)
	assert.Zero(t, ready, "neither connected nor refused")
}
