package sock_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func mustListen(t *testing.T, a sock.Addr, o sock.Options) *sock.Listener {
	t.Helper()
	l, err := sock.Listen(a, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l
}

// child runs a function of this test binary in a process of its own, as a user
// without rights, and gives what it printed.
func child(t *testing.T, name string, args ...string) string {
	t.Helper()
	exe, err := os.Open("/proc/self/exe") // the user may not read the build directory
	require.NoError(t, err)
	defer exe.Close()
	cmd := exec.Command("/proc/self/fd/3", args...)
	cmd.ExtraFiles = []*os.File{exe}
	cmd.Env = append(os.Environ(), "SOCK_TEST_CHILD="+name, "GORACE=atexit_sleep_ms=0")
	cmd.Dir = "/"
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// dials tells whether a TCP client gets through to the listener at host.
func dials(l *sock.Listener, host string) bool {
	port := fmt.Sprint(l.Addr().AddrPort.Port())
	c, err := net.Dial("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return false
	}
	return c.Close() == nil
}

func TestListenTCPFamilies(t *testing.T) {
	for _, tt := range []struct {
		addr       sock.Addr
		bound      string
		on4, on6   bool
		wantV6Only bool
	}{
		{tcp("127.0.0.1:0"), "127.0.0.1", true, false, false},
		{tcp("0.0.0.0:0"), "0.0.0.0", true, false, false},
		{tcp("[::1]:0"), "::1", false, true, true},
		{tcp("[::]:0"), "::", false, true, true},
		{everyAddress(0), "::", true, true, false},
	} {
		t.Run(tt.addr.String(), func(t *testing.T) {
			l := mustListen(t, tt.addr, sock.Options{})
			assert.NotZero(t, l.Addr().AddrPort.Port())
			assert.Equal(t, tt.bound, l.Addr().AddrPort.Addr().String())
			assert.Equal(t, tt.on4, dials(l, "127.0.0.1"))
			assert.Equal(t, tt.on6, dials(l, "::1"))
			assert.Equal(t, tt.wantV6Only, l.Info.V6Only)
		})
	}
}

func TestListenMakesPlainTCPThatNoChildInherits(t *testing.T) {
	l := mustListen(t, tcp("127.0.0.1:0"), sock.Options{})
	assert.Equal(t, unix.IPPROTO_TCP, l.Info.Protocol, "an MPTCP socket's counters are wrong for us")
	assert.True(t, l.Info.Listening)

	flags, err := unix.FcntlInt(uintptr(l.FD.Raw()), unix.F_GETFD, 0)
	require.NoError(t, err)
	assert.Equal(t, unix.FD_CLOEXEC, flags)
	_, _, err = unix.Accept(l.FD.Raw())
	assert.ErrorIs(t, err, unix.EAGAIN, "accept must not block")
}

func TestListenTakesTheLongestQueue(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/core/somaxconn")
	require.NoError(t, err)
	l := mustListen(t, tcp("127.0.0.1:0"), sock.Options{})
	info, err := unix.GetsockoptTCPInfo(l.FD.Raw(), unix.IPPROTO_TCP, unix.TCP_INFO)
	require.NoError(t, err)
	// tcpi_sacked is the backlog of a listening socket (net/ipv4/tcp.c).
	assert.Equal(t, strings.TrimSpace(string(text)), fmt.Sprint(info.Sacked))
}

func TestListenSameAddressAgainRightAfterAConnection(t *testing.T) {
	l := mustListen(t, tcp("127.0.0.1:0"), sock.Options{})
	c, err := net.Dial("tcp", l.Addr().AddrPort.String())
	require.NoError(t, err)
	raw, _, err := unix.Accept4(l.FD.Raw(), unix.SOCK_CLOEXEC)
	require.NoError(t, err)
	require.NoError(t, unix.Close(raw)) // our side closes first and goes to TIME_WAIT
	require.NoError(t, c.Close())
	require.NoError(t, l.Close())
	mustListen(t, l.Addr(), sock.Options{})
}

func TestListenIPFailsWithAHint(t *testing.T) {
	taken, datagram := mustListen(t, tcp("127.0.0.1:0"), sock.Options{}), mustListen(t, udp("127.0.0.1:0"), sock.Options{})
	port := taken.Addr().AddrPort.Port()
	for _, tt := range []struct {
		addr sock.Addr
		is   error
		hint string
	}{
		{taken.Addr(), unix.EADDRINUSE, fmt.Sprintf("another program listens there: ss -ltnp sport = :%d", port)},
		{everyAddress(port), unix.EADDRINUSE, fmt.Sprintf("another program listens there: ss -ltnp sport = :%d", port)},
		{datagram.Addr(), unix.EADDRINUSE, fmt.Sprintf("another program listens there: ss -lunp sport = :%d", datagram.Addr().AddrPort.Port())},
		{tcp("203.0.113.7:8080"), unix.EADDRNOTAVAIL, "no interface of this host has that address: ip address"},
		{tcp("[fe80::1%nosuch0]:8080"), unix.ENODEV, "there is no such interface: ip link"},
		{sock.Addr{Network: "sctp"}, unix.EPROTONOSUPPORT, ""},
	} {
		_, err := sock.Listen(tt.addr, sock.Options{})
		require.ErrorIs(t, err, tt.is)
		require.ErrorContains(t, err, "listen on "+tt.addr.String()+": ")
		assert.Equal(t, tt.hint, sock.Hint(err))
	}
	assert.Empty(t, sock.Hint(unix.EADDRINUSE), "not an error of Listen")
}

func init() {
	children["privileged port"] = func() int {
		_, err := sock.Listen(tcp("127.0.0.1:80"), sock.Options{})
		fmt.Print(err, "\n", sock.Hint(err))
		return 0
	}
}

func TestListenOnAPrivilegedPortNeedsRights(t *testing.T) {
	first, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	require.NoError(t, err)
	if strings.TrimSpace(string(first)) == "0" {
		t.Skip("net.ipv4.ip_unprivileged_port_start is 0: there are no privileged ports here")
	}
	assert.Equal(t, "listen on tcp 127.0.0.1:80: permission denied\n"+
		"ports below 1024 need CAP_NET_BIND_SERVICE or a socket unit", child(t, "privileged port"))
}

func init() {
	children["no IPv6"] = func() int {
		if err := refuseIPv6(); err != nil {
			fmt.Print("cannot install the filter: ", err)
			return 1
		}
		_, err := sock.Listen(tcp("[::1]:0"), sock.Options{})
		fmt.Println(sock.Hint(err))
		l, err := sock.Listen(everyAddress(0), sock.Options{})
		if err != nil {
			fmt.Print(err)
			return 1
		}
		fmt.Print(l.Addr().AddrPort.Addr())
		return 0
	}
}

func TestListenFallsBackToIPv4WhereThereIsNoIPv6(t *testing.T) {
	assert.Equal(t, "the address family is switched off: in the kernel, or by RestrictAddressFamilies= of the unit\n0.0.0.0",
		child(t, "no IPv6"))
}
