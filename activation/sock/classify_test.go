package sock_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// makeSocket is a socket as another program might pass it; sa may be nil.
func makeSocket(t *testing.T, family, typ, protocol int, sa unix.Sockaddr, options ...func(fd int) error) *sock.FD {
	t.Helper()
	raw, err := unix.Socket(family, typ|unix.SOCK_CLOEXEC, protocol)
	require.NoError(t, err)
	fd := sock.NewFD(raw)
	t.Cleanup(func() { assert.NoError(t, fd.Close()) })
	for _, option := range options {
		require.NoError(t, option(raw))
	}
	if sa != nil {
		require.NoError(t, unix.Bind(raw, sa))
	}
	return fd
}

func listening(t *testing.T, fd *sock.FD) *sock.FD {
	t.Helper()
	require.NoError(t, unix.Listen(fd.Raw(), 8))
	return fd
}

func v6only(on int) func(int) error {
	return func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, on) }
}

func mustClassify(t *testing.T, fd *sock.FD) sock.Info {
	t.Helper()
	i, err := sock.Classify(fd.Raw())
	require.NoError(t, err)
	return i
}

// withPort is an address with the port that the kernel chose.
func withPort(addr string, i sock.Info) sock.Addr {
	return sock.TCP(netip.AddrPortFrom(netip.MustParseAddr(addr), i.Addr.AddrPort.Port()))
}

var (
	loopback4 = [4]byte{127, 0, 0, 1}
	mapped4   = netip.MustParseAddr("::ffff:127.0.0.1").As16()
)

func TestClassifyStreamListeners(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		fd   *sock.FD
		want func(sock.Info) sock.Info
	}{
		{
			"IPv4",
			listening(t, makeSocket(t, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP, &unix.SockaddrInet4{Addr: loopback4})),
			func(i sock.Info) sock.Info {
				return sock.Info{Family: unix.AF_INET, Protocol: unix.IPPROTO_TCP, Addr: withPort("127.0.0.1", i)}
			},
		},
		{
			"IPv6 and IPv4",
			listening(t, makeSocket(t, unix.AF_INET6, unix.SOCK_STREAM, 0, &unix.SockaddrInet6{}, v6only(0))),
			func(i sock.Info) sock.Info {
				return sock.Info{Family: unix.AF_INET6, Protocol: unix.IPPROTO_TCP, Addr: withPort("::", i)}
			},
		},
		{
			"IPv6 only",
			listening(t, makeSocket(t, unix.AF_INET6, unix.SOCK_STREAM, 0, &unix.SockaddrInet6{}, v6only(1))),
			func(i sock.Info) sock.Info {
				return sock.Info{Family: unix.AF_INET6, Protocol: unix.IPPROTO_TCP, V6Only: true, Addr: withPort("::", i)}
			},
		},
		{
			"IPv6 socket with a v4-mapped address",
			listening(t, makeSocket(t, unix.AF_INET6, unix.SOCK_STREAM, 0, &unix.SockaddrInet6{Addr: mapped4}, v6only(0))),
			func(i sock.Info) sock.Info {
				return sock.Info{Family: unix.AF_INET6, Protocol: unix.IPPROTO_TCP, Addr: withPort("127.0.0.1", i)}
			},
		},
		{
			"MPTCP",
			listening(t, makeSocket(t, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, &unix.SockaddrInet4{Addr: loopback4})),
			func(i sock.Info) sock.Info {
				return sock.Info{Family: unix.AF_INET, Protocol: unix.IPPROTO_MPTCP, Addr: withPort("127.0.0.1", i)}
			},
		},
		{
			"Unix",
			listening(t, makeSocket(t, unix.AF_UNIX, unix.SOCK_STREAM, 0, &unix.SockaddrUnix{Name: filepath.Join(dir, "s")})),
			func(sock.Info) sock.Info {
				return sock.Info{Family: unix.AF_UNIX, Addr: sock.Unix(filepath.Join(dir, "s"))}
			},
		},
		{
			"abstract",
			listening(t, makeSocket(t, unix.AF_UNIX, unix.SOCK_STREAM, 0, &unix.SockaddrUnix{Name: "@" + dir})),
			func(sock.Info) sock.Info {
				return sock.Info{Family: unix.AF_UNIX, Addr: sock.Unix("@" + dir)}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := mustClassify(t, tt.fd)
			want := tt.want(got)
			want.Type, want.Listening, want.Cookie = unix.SOCK_STREAM, true, got.Cookie
			assert.Equal(t, want, got)
			assert.NotZero(t, got.Cookie)
		})
	}
}

func TestClassifyOtherSockets(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		fd   *sock.FD
		want string
	}{
		{"bound, not listening", makeSocket(t, unix.AF_UNIX, unix.SOCK_STREAM, 0, &unix.SockaddrUnix{Name: "@n" + dir}), "unix @n" + dir},
		{"not even bound", makeSocket(t, unix.AF_UNIX, unix.SOCK_STREAM, 0, nil), "unix without a path"},
		{"datagram", makeSocket(t, unix.AF_UNIX, unix.SOCK_DGRAM, 0, &unix.SockaddrUnix{Name: "@d" + dir}), "unixgram @d" + dir},
		{"seqpacket", makeSocket(t, unix.AF_UNIX, unix.SOCK_SEQPACKET, 0, &unix.SockaddrUnix{Name: "@s" + dir}), "unixpacket @s" + dir},
		{"UDP", makeSocket(t, unix.AF_INET, unix.SOCK_DGRAM, 0, nil), "udp 0.0.0.0:0"},
		{"netlink", makeSocket(t, unix.AF_NETLINK, unix.SOCK_RAW, 0, nil), "socket of family netlink, type raw, protocol 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := mustClassify(t, tt.fd)
			assert.Equal(t, tt.want, got.String())
			assert.False(t, got.Listening)
		})
	}
}

func TestClassifyTellsAConnectedSocket(t *testing.T) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	a, b := sock.NewFD(p[0]), sock.NewFD(p[1])
	defer a.Close()
	defer b.Close()
	assert.True(t, mustClassify(t, a).Connected)
	assert.False(t, mustClassify(t, makeSocket(t, unix.AF_UNIX, unix.SOCK_STREAM, 0, nil)).Connected)
}

func TestCookieTellsTwoSocketsFromTwoDescriptors(t *testing.T) {
	one := makeSocket(t, unix.AF_INET, unix.SOCK_STREAM, 0, nil)
	other := makeSocket(t, unix.AF_INET, unix.SOCK_STREAM, 0, nil)
	raw, err := unix.FcntlInt(uintptr(one.Raw()), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	dup := sock.NewFD(raw)
	defer dup.Close()

	assert.Equal(t, mustClassify(t, one).Cookie, mustClassify(t, dup).Cookie)
	assert.NotEqual(t, mustClassify(t, one).Cookie, mustClassify(t, other).Cookie)
}

func TestClassifyNamesWhatIsNotASocket(t *testing.T) {
	dir := t.TempDir()
	open := func(raw int, err error) *sock.FD {
		require.NoError(t, err)
		fd := sock.NewFD(raw)
		t.Cleanup(func() { assert.NoError(t, fd.Close()) })
		return fd
	}
	file := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	pipe, _ := openPipe(t)

	for _, tt := range []struct {
		fd   *sock.FD
		want string
	}{
		{pipe, "a pipe"},
		{open(unix.MemfdCreate("vault", unix.MFD_CLOEXEC)), "memfd vault"},
		{open(unix.Open(file, unix.O_CLOEXEC, 0)), "file " + file},
		{open(unix.Open(dir, unix.O_CLOEXEC, 0)), "directory " + dir},
		{open(unix.Open(fifo, unix.O_RDWR|unix.O_CLOEXEC, 0)), "FIFO " + fifo},
		{open(unix.Open("/dev/null", unix.O_CLOEXEC, 0)), "device /dev/null"},
		{open(unix.EpollCreate1(unix.EPOLL_CLOEXEC)), "an eventpoll descriptor"},
	} {
		_, err := sock.Classify(tt.fd.Raw())
		var not *sock.NotSocketError
		require.ErrorAs(t, err, &not)
		assert.Equal(t, tt.want, not.Kind)
		assert.EqualError(t, err, "not a socket but "+tt.want)
	}
}

func TestClassifyDescriptorThatIsNotOpen(t *testing.T) {
	_, err := sock.Classify(1 << 20)
	assert.ErrorIs(t, err, unix.EBADF)
}

func TestPrepareSetsBothFlags(t *testing.T) {
	fd := makeSocket(t, unix.AF_INET, unix.SOCK_STREAM, 0, nil)
	_, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_SETFD, 0)
	require.NoError(t, err)

	require.NoError(t, sock.Prepare(fd.Raw()))
	flags, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_GETFD, 0)
	require.NoError(t, err)
	assert.Equal(t, unix.FD_CLOEXEC, flags)
	status, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_GETFL, 0)
	require.NoError(t, err)
	assert.NotZero(t, status&unix.O_NONBLOCK)

	assert.ErrorIs(t, sock.Prepare(1<<20), unix.EBADF)
}
