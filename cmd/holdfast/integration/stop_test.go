package integration

import (
	"io"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// stoppable is an echo route over TCP and a Unix socket, and its instance.
func stoppable(t *testing.T, drainTimeout string) (*testbed.Holdfast, testbed.Route) {
	server := testbed.TCP(t)
	listen(t, server, echo)
	route := testbed.Route{
		Name:    "echo",
		Listen:  []string{testbed.TCP(t), "unix://" + filepath.Join(testbed.Dir(t), "listen.sock")},
		Servers: []string{server},
	}
	return testbed.StartHoldfast(t, testbed.Config{
		Global: "drain_timeout = \"" + drainTimeout + "\"\non_term = \"drain\"",
		Routes: []testbed.Route{route},
	}), route
}

func TestStopRefusesNewConnectionsAndDrainsLiveOnes(t *testing.T) {
	holdfast, route := stoppable(t, "2s")
	leaving, staying := dial(t, route.Listen[0]), dial(t, route.Listen[1])
	requireEcho(t, leaving, "before\n")
	requireEcho(t, staying, "before\n")

	start := time.Now()
	holdfast.Signal(t, syscall.SIGTERM)
	for _, address := range route.Listen {
		testbed.Eventually(t, time.Second, "refused: "+address, func() bool {
			conn, err := testbed.Dial(address)
			if err != nil {
				return true
			}
			_ = conn.Close()
			return false
		})
	}
	requireEcho(t, leaving, "while draining\n")
	requireEcho(t, staying, "while draining\n")
	require.NoError(t, leaving.CloseWrite())
	rest, err := io.ReadAll(leaving)
	require.NoError(t, err, "a connection that ends by itself ends in order")
	assert.Empty(t, rest)
	requireEcho(t, staying, "to the end\n")

	assert.Zero(t, holdfast.ExitCode(t, patience))
	took := time.Since(start)
	assert.Greater(t, took, 1900*time.Millisecond, "live connections get drain_timeout")
	assert.Less(t, took, 4*time.Second)
	_, err = staying.Read(make([]byte, 1))
	assert.Error(t, err, "closed at last")
	assert.NoFileExists(t, testbed.HostPort(route.Listen[1]), "its own Unix socket is removed")
	assert.NoFileExists(t, holdfast.Control)
}

func TestStopWithoutConnectionsIsImmediate(t *testing.T) {
	holdfast, _ := stoppable(t, "60s")
	holdfast.Signal(t, syscall.SIGTERM)
	assert.Zero(t, holdfast.ExitCode(t, 3*time.Second))
}

func TestStopEndsWithTheLastConnection(t *testing.T) {
	holdfast, route := stoppable(t, "60s")
	conn := dial(t, route.Listen[0])
	requireEcho(t, conn, "live\n")
	holdfast.Signal(t, syscall.SIGINT)
	requireEcho(t, conn, "draining\n")
	require.NoError(t, conn.Close())
	assert.Zero(t, holdfast.ExitCode(t, 3*time.Second))
}

func TestSecondSignalStopsAtOnce(t *testing.T) {
	holdfast, route := stoppable(t, "60s")
	conn := dial(t, route.Listen[0])
	requireEcho(t, conn, "live\n")
	holdfast.Signal(t, syscall.SIGTERM)
	testbed.Eventually(t, patience, "it drains", func() bool {
		return holdfast.Ended() || holdfast.Status(t).State == "draining"
	})
	require.False(t, holdfast.Ended())
	holdfast.Signal(t, syscall.SIGTERM)
	assert.Zero(t, holdfast.ExitCode(t, 3*time.Second))
	_, err := io.ReadAll(conn)
	_ = err // closed either way
}

// TestKilledInstanceLeavesNoTrap starts again after kill -9 with Unix sockets
// that nobody removed.
func TestKilledInstanceLeavesNoTrap(t *testing.T) {
	server := testbed.TCP(t)
	listen(t, server, echo)
	cfg := testbed.Config{Routes: []testbed.Route{{
		Name:    "echo",
		Listen:  []string{"unix://" + filepath.Join(testbed.Dir(t), "listen.sock")},
		Servers: []string{server},
	}}}
	for range 3 {
		holdfast := testbed.StartHoldfast(t, cfg)
		requireEcho(t, dial(t, cfg.Routes[0].Listen[0]), "again\n")
		holdfast.Signal(t, syscall.SIGKILL)
		assert.Equal(t, -1, holdfast.ExitCode(t, patience))
	}
}
