package survival

import (
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// route is a listening socket with the server behind it.
type route struct {
	name        string
	network, to string // transports of the clients and of the server: tcp or unix
	acceptProxy bool
	sendProxy   int  // version; 0 = none
	mptcp       bool // the listening socket takes Multipath TCP
	refusing    bool // before the server there is one that refuses

	fd       int // of the listening socket, which the children borrow
	address  string
	backends []string // as in a configuration
}

// routes are all that the tests use.
func routes() []*route {
	return []*route{
		{name: "tcp-tcp", network: "tcp", to: "tcp"},
		{name: "tcp-unix", network: "tcp", to: "unix"},
		{name: "unix-tcp", network: "unix", to: "tcp"},
		{name: "unix-unix", network: "unix", to: "unix"},
		{name: "proxied-tcp", network: "tcp", to: "tcp", acceptProxy: true, sendProxy: 2},
		{name: "proxied-unix", network: "tcp", to: "unix", acceptProxy: true},
		{name: "tcp-unix-v1", network: "tcp", to: "unix", sendProxy: 1},
		{name: "unix-tcp-v1", network: "unix", to: "tcp", sendProxy: 1},
		{name: "mptcp-tcp", network: "tcp", to: "tcp", mptcp: true},
		{name: "refused-unix", network: "tcp", to: "unix", refusing: true, sendProxy: 2},
		{name: "refused-tcp", network: "tcp", to: "tcp", refusing: true},
	}
}

// listen makes the listening socket, as a service manager would.
func (r *route) listen(t *testing.T, dir string) {
	t.Helper()
	family, protocol := unix.AF_INET, unix.IPPROTO_TCP
	sa := unix.Sockaddr(&unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	switch {
	case r.network == "unix":
		r.address = filepath.Join(dir, r.name)
		family, protocol, sa = unix.AF_UNIX, 0, &unix.SockaddrUnix{Name: r.address}
	case r.mptcp:
		protocol = unix.IPPROTO_MPTCP
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
	if r.mptcp && err != nil {
		t.Log("no Multipath TCP here:", err)
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, sa))
	require.NoError(t, unix.Listen(fd, 4096))
	if r.network == "tcp" {
		bound, err := unix.Getsockname(fd)
		require.NoError(t, err)
		r.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*unix.SockaddrInet4).Port))
	}
	r.fd = fd
}

// refuser is an address of which nobody else can make a server.
func refuser(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(bound.(*unix.SockaddrInet4).Port)).String()
}
