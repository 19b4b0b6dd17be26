package daemon

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy"
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

// manager is the socket of a service manager that has no store. It gives what it is
// told, but for requests of a store and for the text of the status.
func manager(t *testing.T) (told func() string) {
	t.Helper()
	name := "@" + t.TempDir()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	messages := make(chan string, 1000)
	go func() {
		defer close(messages)
		message := make([]byte, 4096)
		for {
			n, err := conn.Read(message) // descriptors beside it are closed by the kernel
			if err != nil {
				return
			}
			text, _, _ := strings.Cut(string(message[:n]), "\nSTATUS=")
			if !strings.HasPrefix(text, "STATUS=") && !strings.HasPrefix(text, "FDSTORE") && text != "BARRIER=1" {
				messages <- text
			}
		}
	}()
	t.Cleanup(func() {
		assert.NoError(t, conn.Close())
		for range messages {
			continue
		}
	})
	t.Setenv("NOTIFY_SOCKET", name)
	return func() string {
		select {
		case message := <-messages:
			return message
		case <-time.After(patience):
			require.Fail(t, "the manager is not told anything")
			return ""
		}
	}
}

// idleEngine serves nothing.
func idleEngine(t *testing.T) *proxy.Engine {
	t.Helper()
	e, err := proxy.New(proxy.Options{Loops: 1, Log: quiet})
	require.NoError(t, err)
	t.Cleanup(func() { e.Stop(t.Context(), proxy.Ending{}) })
	return e
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

// What the holder is told at the end takes time, too.
func TestTheManagerIsAskedForPatienceWhenTheDrainIsOver(t *testing.T) {
	told := manager(t)
	r, _ := draining(t, config.Timeout{})
	assert.Equal(t, "READY=1", told())
	assert.Equal(t, "STOPPING=1", told())
	assert.Equal(t, "EXTEND_TIMEOUT_USEC=30000000", told())
	r.end(t)
}

func TestTheManagerIsAskedAgainAndAgain(t *testing.T) {
	told := manager(t)
	notify, err := systemd.NotifierFromEnv()
	require.NoError(t, err)
	d := &daemon{notify: notify, telling: newTelling(notify, quiet), log: quiet, engine: idleEngine(t)}
	defer d.telling.close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		d.extendStop(ctx, time.Time{}, time.Millisecond)
		close(ended)
	}()
	for range 5 {
		assert.Equal(t, "EXTEND_TIMEOUT_USEC=30000000", told())
	}
	stop()
	<-ended
	assert.Less(t, 2*extendEvery, extendBy, "one message may be lost")
}
