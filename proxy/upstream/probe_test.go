package upstream

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

func probed(book *logBook, servers ...config.Address) *Pool {
	return New(config.Upstream{
		Name:    "app",
		Servers: servers,
		Balance: config.RoundRobin,
		Health:  &config.Health{Interval: 10 * time.Millisecond, Timeout: time.Second, Rise: 2, Fall: 3},
	}, book.logger(), nil)
}

func healthy(p *Pool, i int) func() bool {
	return func() bool { return p.Status().Servers[i].Healthy }
}

func unhealthy(p *Pool, i int) func() bool {
	return func() bool { return !p.Status().Servers[i].Healthy }
}

func TestADeadServerIsAvoidedAndComesBack(t *testing.T) {
	t.Parallel()
	for network, address := range map[string]string{
		"tcp":  "127.0.0.1:0",
		"unix": filepath.Join(t.TempDir(), "s"),
	} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			var book logBook
			good, bad := listen(t, "tcp", "127.0.0.1:0"), listen(t, network, address)
			p := probed(&book, addressOf(bad), addressOf(good))
			stop := run(t, p)
			name := "upstream app: server " + addressOf(bad).String()

			require.NoError(t, bad.Close())
			require.Eventually(t, unhealthy(p, 0), patience, time.Millisecond, "dead server is noticed")
			assert.NotEmpty(t, p.Status().Servers[0].LastError)
			for range 4 {
				var tried Tried
				assert.Equal(t, "tcp "+good.Addr().String(), p.Pick(netip.Addr{}, &tried, 0).String())
				assert.NotNil(t, p.Pick(netip.Addr{}, &tried, 0), "still tried last")
			}

			listen(t, network, bad.Addr().String())
			require.Eventually(t, healthy(p, 0), patience, time.Millisecond, "it is back")
			require.Eventually(t, func() bool { return book.count(name+" is up") == 1 }, patience, time.Millisecond)
			stop()
			assert.Equal(t, 1, book.count(name+" is down: "), "once, not per probe")
			assert.Zero(t, book.count(addressOf(good).String()))
			assert.Empty(t, p.Status().Servers[0].LastError)
		})
	}
}

func TestProbesLeaveNoTimeWait(t *testing.T) {
	t.Parallel()
	// Accepts and closes nothing, so each orderly close would leave the probe's
	// end in FIN_WAIT2 and then TIME_WAIT.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	target, err := tcpTarget(addr("127.0.0.1"), addressOf(l).Port)
	require.NoError(t, err)
	before := connectionsTo(t, l) // of who had the port before us
	for range 20 {
		require.NoError(t, probe(context.Background(), target, patience))
	}
	for connection := range connectionsTo(t, l) {
		assert.True(t, before[connection], connection)
	}
}

// connectionsTo are the ends of all connections to a listener, as "local remote" in the
// kernel's spelling.
func connectionsTo(t *testing.T, l net.Listener) map[string]bool {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	require.NoError(t, err)
	peer := fmt.Sprintf("0100007F:%04X", addressOf(l).Port)
	found := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); fields[2] == peer {
			found[fields[1]+" "+fields[2]] = true
		}
	}
	return found
}

// fullListener is a listener whose queue is full: a connect to it hangs.
func fullListener(t *testing.T) config.Address {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(fd, 0))
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	port := uint16(name.(*unix.SockaddrInet4).Port)
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return tcp("127.0.0.1", port)
}

func TestASilentServerIsDownAfterItsTimeout(t *testing.T) {
	t.Parallel()
	var book logBook
	p := probed(&book, fullListener(t))
	p.cfg.Health.Timeout = 20 * time.Millisecond
	run(t, p)
	require.Eventually(t, unhealthy(p, 0), patience, time.Millisecond)
	assert.Equal(t, "timed out", p.Status().Servers[0].LastError)
}

func TestRunEndsDuringAProbe(t *testing.T) {
	t.Parallel()
	var book logBook
	p := probed(&book, fullListener(t))
	p.cfg.Health.Timeout = time.Hour
	stop := run(t, p)
	require.Eventually(t, func() bool { return len(p.permits) == 1 }, patience, time.Millisecond, "the probe hangs")
	stop()
	assert.True(t, p.Status().Servers[0].Healthy, "that it was ended is no failure")
}

func TestProbesFollowTheAddressesOfAName(t *testing.T) {
	t.Parallel()
	var book logBook
	l := listen(t, "tcp", "127.0.0.1:0")
	p := probed(&book, tcp("db.test", addressOf(l).Port))
	var z zone
	z.set(nil, "127.0.0.2") // where nobody listens
	p.lookUp = z.lookUp
	run(t, p)
	require.Eventually(t, unhealthy(p, 0), patience, time.Millisecond)
	down := fmt.Sprintf("server tcp://db.test:%d (127.0.0.2:%d) is down: connection refused", addressOf(l).Port, addressOf(l).Port)
	require.Eventually(t, func() bool { return book.count(down) == 1 }, patience, time.Millisecond)

	z.set(nil, "127.0.0.1")
	p.endpoints()[0].Failed(errRefused, 0)
	require.Eventually(t, healthy(p, 0), patience, time.Millisecond)
	require.Eventually(t, func() bool { return len(concrete(p)) == 1 && concrete(p)[0] == "tcp "+l.Addr().String() }, patience, time.Millisecond)
}

func TestAtMostMaxProbesRunAtATime(t *testing.T) {
	t.Parallel()
	var book logBook
	silent := fullListener(t)
	servers := make([]config.Address, maxProbes+10)
	for i := range servers {
		servers[i] = silent
	}
	p := probed(&book, servers...)
	p.cfg.Health.Timeout = time.Hour
	run(t, p)
	require.Eventually(t, func() bool { return len(p.permits) == maxProbes }, patience, time.Millisecond)
	for _, server := range p.Status().Servers {
		assert.True(t, server.Healthy)
	}
}

func TestJitterStaysWithinATenth(t *testing.T) {
	t.Parallel()
	for range 1000 {
		assert.InDelta(t, float64(time.Second), float64(jitter(time.Second)), float64(100*time.Millisecond))
	}
}
