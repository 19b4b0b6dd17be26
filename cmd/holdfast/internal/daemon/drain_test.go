package daemon

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/status"
	"github.com/holdfast-proxy/holdfast/systemd"
)

// draining is an instance with a live connection that was told to stop.
func draining(t *testing.T, limit config.Timeout) (*running, net.Conn) {
	t.Helper()
	cfg := configIn(shortDir(t))
	cfg.Global.DrainTimeout = limit
	cfg.Upstreams[0].Servers = []config.Address{echo(t)}
	r := serving(t, cfg)
	r.eventually(t, status.Running)
	conn := r.dial(t)
	requireEcho(t, conn)
	r.signal(t, unix.SIGTERM)
	return r, conn
}

func TestDrainWithoutLimitEndsWithASecondSignal(t *testing.T) {
	r, conn := draining(t, config.Timeout{Never: true})
	r.eventually(t, status.Draining)
	requireEcho(t, conn)
	r.signal(t, unix.SIGINT)
	r.end(t)
	assert.Contains(t, r.log.String(), `msg="stopping at once" signal=SIGINT`)
}

func TestDrainWithoutLimitEndsWithTheLastConnection(t *testing.T) {
	r, conn := draining(t, config.Timeout{Never: true})
	r.eventually(t, status.Draining)
	require.NoError(t, conn.Close())
	r.end(t)
}

func TestDrainEndsAtItsLimit(t *testing.T) {
	r, _ := draining(t, config.Timeout{Duration: 50 * time.Millisecond})
	r.end(t)
	assert.Contains(t, r.log.String(), "closing what is left")
}

// manager is the socket of a service manager. It gives what it is told.
func manager(t *testing.T) (told func() string) {
	t.Helper()
	name := "@" + t.TempDir()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close()) })
	t.Setenv("NOTIFY_SOCKET", name)
	return func() string {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
		message := make([]byte, 1024)
		n, err := conn.Read(message)
		require.NoError(t, err)
		return string(message[:n])
	}
}

// What the manager is told from the start to the end of an instance.
func TestTheManagerIsAskedForPatienceWhileItDrains(t *testing.T) {
	told := manager(t)
	r, _ := draining(t, config.Timeout{Never: true})
	assert.Equal(t, "READY=1", told())
	assert.Equal(t, "STOPPING=1", told())
	assert.Equal(t, "EXTEND_TIMEOUT_USEC=30000000", told(), "at once: TimeoutStopSec= may be short")
	r.signal(t, unix.SIGTERM)
	r.end(t)
}

func TestTheManagerIsAskedAgainAndAgain(t *testing.T) {
	told := manager(t)
	notify, err := systemd.NotifierFromEnv()
	require.NoError(t, err)
	d := &daemon{notify: notify, log: quiet}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		d.extendStop(ctx, time.Millisecond)
		close(ended)
	}()
	for range 5 {
		assert.Equal(t, "EXTEND_TIMEOUT_USEC=30000000", told())
	}
	stop()
	<-ended
	assert.Less(t, 2*extendEvery, extendBy, "one message may be lost")
}
