package relay

import (
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// networkVariable tells a test binary that it runs in a network of its own.
const networkVariable = "RELAY_TEST_OWN_NETWORK"

func TestClientWaitsWhenNoLocalPortIsFree(t *testing.T) {
	if os.Getenv(networkVariable) != "" {
		exhaustPorts(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("a network namespace of its own needs root")
	}
	run := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	run.Env = append(os.Environ(), networkVariable+"=1")
	run.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "--- PASS: "+t.Name())
}

// exhaustPorts has more connections than the network has ports to connect from.
func exhaustPorts(t *testing.T) {
	bringUpLoopback(t)
	const ports = 4
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("50000 50003"), 0o600))
	b := newBackendAt(t, "tcp", "127.0.0.1:8000", echo)
	r := newRig(t, setup{network: "unix", pool: func(u *config.Upstream) { u.ConnectRetry = patience }}, b.address)
	var inside []net.Conn
	for range ports {
		c := r.dial()
		require.NoError(t, ping(t, c))
		inside = append(inside, c)
	}
	late := r.dial()
	_, err := late.Write([]byte("ping"))
	require.NoError(t, err)
	eventually(t, "it waits for a port", func() bool {
		last := unix.Errno(0)
		r.eachPair(func(p *pair) { last = max(last, p.lastErr) })
		return last == unix.EADDRNOTAVAIL
	})
	require.NoError(t, ping(t, inside[0]), "others go on")
	require.NoError(t, inside[1].Close())
	_, err = late.Read(make([]byte, 4))
	require.NoError(t, err, "served when a port is free again")
	assert.Zero(t, r.relay.Stats().Failed)
}

func bringUpLoopback(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	require.NoError(t, err)
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	require.NoError(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request))
}
