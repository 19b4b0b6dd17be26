package storetest_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/activation/sock/socktest"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

func TestMain(m *testing.M) { os.Exit(socktest.Run(m)) }

func eventfds(t *testing.T, n int) []int {
	t.Helper()
	raws := make([]int, n)
	for i := range raws {
		raw, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		require.NoError(t, err)
		fd := sock.NewFD(raw)
		t.Cleanup(func() { assert.NoError(t, fd.Close()) })
		raws[i] = raw
	}
	return raws
}

func TestMessagesDoWhatTheyDoInSystemd(t *testing.T) {
	long := strings.Repeat("x", 255)
	for _, tt := range []struct {
		name    string
		message string
		fds     int
		want    []string // beside "a", "b", "b", which are there
	}{
		{"push", "FDSTORE=1\nFDNAME=c", 1, []string{"c", "b", "b", "a"}},
		{"push under a name that is there", "FDSTORE=1\nFDNAME=a", 1, []string{"a", "b", "b", "a"}},
		{"push without a name", "FDSTORE=1", 1, []string{"stored", "b", "b", "a"}},
		{"push with a bad name", "FDSTORE=1\nFDNAME=c:d", 1, []string{"stored", "b", "b", "a"}},
		{"push with a long name", "FDSTORE=1\nFDNAME=" + long, 1, []string{long, "b", "b", "a"}},
		{"push with too long a name", "FDSTORE=1\nFDNAME=" + long + "x", 1, []string{"stored", "b", "b", "a"}},
		{"push with two names", "FDSTORE=1\nFDNAME=c\nFDNAME=d", 1, []string{"c", "b", "b", "a"}},
		{"push with a last newline and NUL", "FDSTORE=1\nFDNAME=c\n\x00", 1, []string{"c", "b", "b", "a"}},
		{"push of nothing", "FDSTORE=1\nFDNAME=c", 0, []string{"b", "b", "a"}},
		{"push of more than there is room for", "FDSTORE=1\nFDNAME=c", 3, []string{"c", "c", "b", "b", "a"}},
		{"remove by name", "FDSTOREREMOVE=1\nFDNAME=b", 0, []string{"a"}},
		{"remove what is not there", "FDSTOREREMOVE=1\nFDNAME=c", 0, []string{"b", "b", "a"}},
		{"remove without a name", "FDSTOREREMOVE=1", 0, []string{"b", "b", "a"}},
		{"remove goes before push", "FDSTORE=1\nFDSTOREREMOVE=1\nFDNAME=b", 1, []string{"a"}},
		{"a barrier with something else is nothing", "BARRIER=1\nFDSTOREREMOVE=1\nFDNAME=b", 1, []string{"b", "b", "a"}},
		{"a NUL within", "FDSTOREREMOVE=1\x00\nFDNAME=b", 0, []string{"b", "b", "a"}},
		{"too long", "FDSTOREREMOVE=1\nFDNAME=b\n" + strings.Repeat("x", 4096), 0, []string{"b", "b", "a"}},
		{"other words", "READY=1\nSTATUS=x", 1, []string{"b", "b", "a"}},
		{"nothing", "", 0, []string{"b", "b", "a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			manager := storetest.Start(t, 5)
			notify := manager.Notifier()
			require.NoError(t, notify.SendFDs(eventfds(t, 1), "FDSTORE=1", "FDNAME=a"))
			require.NoError(t, notify.SendFDs(eventfds(t, 2), "FDSTORE=1", "FDNAME=b"))
			require.NoError(t, notify.SendFDs(eventfds(t, tt.fds), tt.message))
			require.NoError(t, notify.Barrier(t.Context()))
			assert.Equal(t, tt.want, manager.Names())
		})
	}
}

func TestAFileIsKeptOnce(t *testing.T) {
	manager := storetest.Start(t, 5)
	notify := manager.Notifier()
	fds := eventfds(t, 2)
	require.NoError(t, notify.SendFDs(fds[:1], "FDSTORE=1", "FDNAME=a"))
	require.NoError(t, notify.SendFDs(fds, "FDSTORE=1", "FDNAME=b"))
	require.NoError(t, notify.Barrier(t.Context()))
	assert.Equal(t, []string{"b", "a"}, manager.Names())
}

func TestWhatHangsUpIsRemovedUnlessItIsNotPolled(t *testing.T) {
	manager := storetest.Start(t, 5)
	notify := manager.Notifier()
	pipe := make([]int, 2)
	require.NoError(t, unix.Pipe2(pipe, unix.O_CLOEXEC))
	other := make([]int, 2)
	require.NoError(t, unix.Pipe2(other, unix.O_CLOEXEC))
	file, err := os.Open("/proc/self/exe") // cannot be polled
	require.NoError(t, err)
	conn, err := file.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, conn.Control(func(fd uintptr) {
		require.NoError(t, notify.SendFDs([]int{int(fd)}, "FDSTORE=1", "FDNAME=file"))
	}))
	require.NoError(t, file.Close())
	require.NoError(t, notify.SendFDs(pipe[:1], "FDSTORE=1", "FDNAME=polled"))
	require.NoError(t, notify.SendFDs(other[:1], "FDSTORE=1", "FDNAME=left alone", "FDPOLL=0"))
	require.NoError(t, notify.Barrier(t.Context()))
	require.Len(t, manager.Names(), 3)
	for _, raw := range append(pipe, other...) {
		require.NoError(t, unix.Close(raw))
	}
	require.Eventually(t, func() bool { return len(manager.Names()) == 2 }, 10*time.Second, time.Millisecond)
	assert.Equal(t, []string{"left alone", "file"}, manager.Names())
}

func TestPassGivesCopies(t *testing.T) {
	manager := storetest.Start(t, 5)
	notify := manager.Notifier()
	require.NoError(t, notify.SendFDs(eventfds(t, 1), "FDSTORE=1", "FDNAME=a"))
	require.NoError(t, notify.Barrier(t.Context()))
	for range 2 {
		held := manager.Pass()
		require.Len(t, held, 1)
		assert.Equal(t, "a", held[0].Name)
		_, err := unix.Write(held[0].FD.Raw(), []byte{1, 0, 0, 0, 0, 0, 0, 0})
		require.NoError(t, err)
		require.NoError(t, held[0].FD.Close())
	}
}
