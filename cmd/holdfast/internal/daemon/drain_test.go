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

	"github.com/holdfast-proxy/holdfast/fdstore"
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
	return managerThat(t, func(message string) (string, bool) {
		text, _, _ := strings.Cut(message, "\nSTATUS=")
		return text, !strings.HasPrefix(text, "STATUS=") && !strings.HasPrefix(text, "FDSTORE") && text != "BARRIER=1"
	})
}

// statusesTold are the texts of the status that a manager is told.
func statusesTold(t *testing.T) (told func() string) {
	t.Helper()
	return managerThat(t, func(message string) (string, bool) { return strings.CutPrefix(message, "STATUS=") })
}

// managerThat gives what hears makes of each message.
func managerThat(t *testing.T, hears func(message string) (text string, heard bool)) (told func() string) {
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
			if text, heard := hears(string(message[:n])); heard {
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

// ending is an instance without connections that is told to stop. It tells the manager so
// every time that every has passed.
func ending(t *testing.T, every time.Duration) *daemon {
	t.Helper()
	notify, err := systemd.NotifierFromEnv()
	require.NoError(t, err)
	e, err := proxy.New(proxy.Options{Loops: 1, Log: quiet})
	require.NoError(t, err)
	d := &daemon{
		log: quiet, notify: notify, telling: newTelling(notify, quiet), extendEvery: every,
		engine: e, keep: &keeping{log: quiet}, lastCalls: make(chan func()), drained: make(chan struct{}),
	}
	t.Cleanup(d.telling.close)
	return d
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

// slowHolder does not answer for long.
type slowHolder struct {
	asked, answer chan struct{}
}

func (*slowHolder) SendFDs([]int, ...string) error { return nil }

func (h *slowHolder) Barrier(context.Context) error {
	close(h.asked)
	<-h.answer
	return nil
}

// With thousands of descriptors it takes systemd seconds to drop them.
func TestTheManagerIsAskedForPatienceUntilTheHolderHasAnswered(t *testing.T) {
	told := manager(t)
	d := ending(t, time.Millisecond)
	holder := &slowHolder{make(chan struct{}), make(chan struct{})}
	memory, err := fdstore.Memfd("x", nil)
	require.NoError(t, err)
	defer memory.Close()
	d.keep.store.Store(fdstore.New(holder, fdstore.Returned{Known: []fdstore.Held{{Name: stateName(1), FD: memory}}}, fdstore.Options{}))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.finish(config.Timeout{}, nil)
	}()
	<-holder.asked
	const mark = "X_TEST=1"
	d.tell(func() error { return d.notify.Send(mark) })
	for told() != mark {
		continue
	}
	for range 5 {
		assert.Equal(t, "EXTEND_TIMEOUT_USEC=30000000", told())
	}
	close(holder.answer)
	<-ended
	assert.Empty(t, d.keep.names())
}

func TestTheManagerMayMissOneMessage(t *testing.T) {
	assert.Less(t, 2*extendEvery, extendBy)
}

func TestTheStatusTellsHowLongADrainMayTake(t *testing.T) {
	told := statusesTold(t)
	d := ending(t, time.Hour)
	further := make(chan string)
	_, end := d.drain(config.Timeout{Duration: time.Hour}, further)
	assert.Equal(t, "stopping: 0 connections left, 1h0m0s at most", told())
	further <- "SIGTERM"
	assert.Equal(t, "stopping: 0 connections left", told(), "at once")
	end()
	d.engine.Stop(t.Context(), proxy.Ending{})
}
