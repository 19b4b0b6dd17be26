package upstream

import (
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// connect is connect(2) with the bytes as they are.
func connect(t *testing.T, e *Endpoint) error {
	t.Helper()
	fd, err := unix.Socket(e.Family(), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	raw := e.Sockaddr()
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&raw[0])), uintptr(len(raw)))
	if errno != 0 {
		return errno
	}
	return nil
}

func TestTheKernelTakesTheSockaddrOfEachFamily(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		network, address string
		family           int
	}{
		"IPv4":     {"tcp", "127.0.0.1:0", unix.AF_INET},
		"IPv6":     {"tcp", "[::1]:0", unix.AF_INET6},
		"Unix":     {"unix", filepath.Join(t.TempDir(), "s"), unix.AF_UNIX},
		"abstract": {"unix", "@holdfast-test-" + t.Name(), unix.AF_UNIX},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t, test.network, test.address)
			p := newPool(config.RoundRobin, addressOf(l))
			require.Len(t, p.endpoints(), 1)
			e := p.endpoints()[0]
			assert.Equal(t, test.family, e.Family())
			assert.Equal(t, test.network+" "+l.Addr().String(), e.String())
			assert.Equal(t, addressOf(l).String(), p.Status().Servers[0].Address)
			assert.NoError(t, connect(t, e))
		})
	}
}

func TestUnixPathsUpToTheKernelsLimit(t *testing.T) {
	t.Parallel()
	for path, ok := range map[string]bool{
		"/" + strings.Repeat("x", 106): true,
		"/" + strings.Repeat("x", 107): false,
		"@" + strings.Repeat("x", 107): true,
		"@" + strings.Repeat("x", 108): false,
		"":                             false,
	} {
		target, err := unixTarget(path)
		if !ok {
			require.ErrorContains(t, err, "Unix socket path", "%d bytes", len(path))
			continue
		}
		require.NoError(t, err)
		assert.LessOrEqual(t, len(target.sockaddr), unix.SizeofSockaddrUnix)
	}
}

func TestZoneBecomesTheInterfaceIndex(t *testing.T) {
	t.Parallel()
	lo, err := net.InterfaceByName("lo")
	require.NoError(t, err)
	for _, zone := range []string{"lo", "1"} {
		p := newPool(config.RoundRobin, tcp("fe80::1%"+zone, 80))
		require.Len(t, p.endpoints(), 1, "usable before Run")
		raw := (*unix.RawSockaddrInet6)(unsafe.Pointer(&p.endpoints()[0].Sockaddr()[0]))
		assert.Equal(t, lo.Index, int(raw.Scope_id))
	}
}

func TestZoneWithoutInterfaceIsAnErrorInTheStatus(t *testing.T) {
	t.Parallel()
	p := newPool(config.RoundRobin, tcp("fe80::1%nosuch0", 80))
	<-p.Resolved()
	var tried Tried
	assert.Nil(t, p.Pick(netip.Addr{}, &tried, 0))
	server := p.Status().Servers[0]
	assert.False(t, server.Healthy)
	assert.Equal(t, "no network interface nosuch0", server.LastError)
}
