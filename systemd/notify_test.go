package systemd

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// datagrams is a socket as the service manager or the journal has it.
func datagrams(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func next(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
	b := make([]byte, 256<<10)
	n, err := c.Read(b)
	require.NoError(t, err)
	return string(b[:n])
}

func notifier(t *testing.T, socket string) *Notifier {
	t.Helper()
	t.Setenv("NOTIFY_SOCKET", socket)
	n, err := NotifierFromEnv()
	require.NoError(t, err)
	return n
}

func TestNotifyMessages(t *testing.T) {
	manager := filepath.Join(t.TempDir(), "notify")
	for _, socket := range []string{manager, "@" + manager} {
		c := datagrams(t, socket)
		n := notifier(t, socket)
		for _, tt := range []struct {
			send func() error
			want string
		}{
			{n.Ready, "READY=1"},
			{n.Stopping, "STOPPING=1"},
			{func() error { return n.Status("3 listeners") }, "STATUS=3 listeners"},
			{func() error { return n.Status("bad\nREADY=1") }, "STATUS=bad READY=1"},
			{func() error { return n.ExtendTimeout(1500 * time.Millisecond) }, "EXTEND_TIMEOUT_USEC=1500000"},
			{func() error { return n.Send("READY=1", "STATUS=up") }, "READY=1\nSTATUS=up"},
		} {
			require.NoError(t, tt.send())
			assert.Equal(t, tt.want, next(t, c))
		}
	}
}

func TestNotifySocketIsNotInherited(t *testing.T) {
	require.NotNil(t, notifier(t, "@somewhere"))
	assert.NotContains(t, strings.Join(os.Environ(), "\n"), "NOTIFY_SOCKET")
}

func TestNobodyToNotify(t *testing.T) {
	n := notifier(t, "")
	assert.Nil(t, n)
	require.NoError(t, n.Ready())
	require.NoError(t, n.Send("anything"))
}

func TestNotifySocketThatCannotBe(t *testing.T) {
	for _, socket := range []string{"relative/path", "vsock:2:1"} {
		t.Setenv("NOTIFY_SOCKET", socket)
		n, err := NotifierFromEnv()
		require.ErrorContains(t, err, socket)
		require.NoError(t, n.Ready(), "what comes with the error is usable")
	}
	require.ErrorIs(t, notifier(t, "@nobody is there").Ready(), unix.ECONNREFUSED)
	require.ErrorIs(t, notifier(t, "/nonexistent/notify").Ready(), unix.ENOENT)
}

func TestNotifyRefusesWhatIsNotAnAssignment(t *testing.T) {
	n := notifier(t, "@somewhere")
	for _, bad := range []string{"READY", "=1", "", "A=1\nB=2"} {
		assert.ErrorContains(t, n.Send("READY=1", bad), "is not an assignment")
	}
}

func TestNotifyFromManyGoroutines(t *testing.T) {
	name := "@" + t.TempDir()
	c := datagrams(t, name)
	n := notifier(t, name)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { assert.NoError(t, n.Ready()) })
	}
	for range 8 {
		assert.Equal(t, "READY=1", next(t, c))
	}
	wg.Wait()
}
