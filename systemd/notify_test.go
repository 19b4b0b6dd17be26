package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
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

// nextWithFDs is next for the manager, which gets descriptors too and owns them.
func nextWithFDs(t *testing.T, c *net.UnixConn) (message string, fds []int) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
	b, oob := make([]byte, maxMessageText), make([]byte, unix.CmsgSpace(4*maxMessageFDs))
	n, oobn, flags, _, err := c.ReadMsgUnix(b, oob)
	require.NoError(t, err)
	require.Zero(t, flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC))
	controls, err := unix.ParseSocketControlMessage(oob[:oobn])
	require.NoError(t, err)
	for _, control := range controls {
		rights, err := unix.ParseUnixRights(&control)
		require.NoError(t, err)
		fds = append(fds, rights...)
	}
	return string(b[:n]), fds
}

func closeFDs(t *testing.T, fds []int) {
	t.Helper()
	for _, fd := range fds {
		require.NoError(t, unix.Close(fd))
	}
}

// fill sends until the manager's queue is full, and returns how many messages fit.
func fill(t *testing.T, n *Notifier) (sent int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer closeFDs(t, []int{fd})
	for {
		err := unix.Sendto(fd, []byte("READY=1"), unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: n.socket})
		if errors.Is(err, unix.EAGAIN) {
			return sent
		}
		require.NoError(t, err)
		sent++
	}
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
			{n.Watchdog, "WATCHDOG=1"},
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
	require.NoError(t, n.Reloading())
	require.NoError(t, n.Watchdog())
	require.ErrorIs(t, n.SendFDs(nil, "FDSTORE=1"), ErrNoManager, "the caller relies on it")
	require.ErrorIs(t, n.Barrier(t.Context()), ErrNoManager)
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

func TestDescriptorsGoInTheMessageOfTheirAssignments(t *testing.T) {
	name := "@" + t.TempDir()
	c := datagrams(t, name)
	n := notifier(t, name)
	var pipe [2]int
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	defer closeFDs(t, pipe[:])

	require.NoError(t, n.SendFDs(pipe[:], "FDSTORE=1", "FDNAME=pipe"))
	message, fds := nextWithFDs(t, c)
	defer closeFDs(t, fds)
	assert.Equal(t, "FDSTORE=1\nFDNAME=pipe", message)
	require.Len(t, fds, 2)
	_, err := unix.Write(fds[1], []byte("same"))
	require.NoError(t, err)
	b := make([]byte, 10)
	got, err := unix.Read(pipe[0], b)
	require.NoError(t, err)
	assert.Equal(t, "same", string(b[:got]))
}

func TestNothingIsSentThatCannotArriveWhole(t *testing.T) {
	name := "@" + t.TempDir()
	c := datagrams(t, name)
	n := notifier(t, name)
	many := make([]int, maxMessageFDs+1) // all of them stdin
	require.ErrorContains(t, n.SendFDs(many, "FDSTORE=1"), "254 descriptors are more than the 253 of one message")
	require.ErrorIs(t, n.SendFDs([]int{0, -1}, "FDSTORE=1"), unix.EBADF)
	longest := "STATUS=" + strings.Repeat("x", maxMessageText-len("STATUS="))
	require.ErrorContains(t, n.Send(longest+"x"), "4097 bytes")

	require.NoError(t, n.SendFDs(many[1:], longest))
	message, fds := nextWithFDs(t, c)
	defer closeFDs(t, fds)
	assert.Equal(t, longest, message)
	assert.Len(t, fds, maxMessageFDs)
}

func TestAFullQueueIsWaitedFor(t *testing.T) {
	name := "@" + t.TempDir()
	c := datagrams(t, name)
	n := notifier(t, name)
	queued := fill(t, n)
	sent := make(chan error, 1)
	go func() { sent <- n.Status("late") }()
	for range queued {
		assert.Equal(t, "READY=1", next(t, c))
	}
	assert.Equal(t, "STATUS=late", next(t, c))
	require.NoError(t, <-sent)
}

func init() {
	children["too many in flight"] = func() int {
		if err := sendTooMany(); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}
}

// sendTooMany sends to itself, and does not read, until an error comes. Only
// processes without privileges have a limit.
func sendTooMany() error {
	const limit = 50
	err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit})
	if err != nil {
		return err
	}
	const nobody = 65534
	if err := unix.Setuid(nobody); err != nil && os.Geteuid() == 0 {
		return err
	}
	name := fmt.Sprintf("@holdfast-in-flight-%d", os.Getpid())
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	n := &Notifier{socket: name}
	for range 3 {
		if err := n.SendFDs(make([]int, limit), "FDSTORE=1"); err != nil {
			return err
		}
	}
	return nil
}

func TestTooManyDescriptorsInFlightAreAClearError(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "SYSTEMD_TEST_CHILD=too many in flight")
	out, err := child.CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "more descriptors are in flight than this user may have: sendmsg: too many references")
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
