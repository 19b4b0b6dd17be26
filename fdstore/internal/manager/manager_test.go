package manager_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/activation/sock/socktest"
	"github.com/holdfast-proxy/holdfast/fdstore/internal/manager"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

// What messages do is tested in package storetest, through a socket.

func TestMain(m *testing.M) { os.Exit(socktest.Run(m)) }

func listen(t *testing.T) (s *manager.Socket, address string) {
	t.Helper()
	address = "@manager" + t.TempDir()
	s, err := manager.Listen(address)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s, address
}

func owned(t testing.TB) func(raw int, err error) *sock.FD {
	return func(raw int, err error) *sock.FD {
		t.Helper()
		require.NoError(t, err)
		fd := sock.NewFD(raw)
		t.Cleanup(func() { assert.NoError(t, fd.Close()) })
		return fd
	}
}

func eventfd(t *testing.T) *sock.FD {
	t.Helper()
	return owned(t)(unix.Eventfd(0, unix.EFD_CLOEXEC))
}

func newStore(t testing.TB, o manager.Options) *manager.Store {
	t.Helper()
	o.Epoll = owned(t)(unix.EpollCreate1(unix.EPOLL_CLOEXEC))
	s := manager.NewStore(o)
	t.Cleanup(s.Close)
	return s
}

func names(s *manager.Store) (list []string) {
	for _, k := range s.Kept() {
		list = append(list, k.Name)
	}
	return list
}

func push(t testing.TB, name string, n int) manager.Message {
	t.Helper()
	m := manager.Message{Lines: []string{"FDSTORE=1", "FDNAME=" + name}}
	for range n {
		raw, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		require.NoError(t, err)
		m.FDs = append(m.FDs, sock.NewFD(raw))
	}
	return m
}

func TestAMessageHasItsSenderItsLinesAndItsDescriptors(t *testing.T) {
	s, address := listen(t)
	_, err := s.Receive()
	require.ErrorIs(t, err, manager.ErrNone)
	notify := storetest.Notifier{Socket: address}
	require.NoError(t, notify.SendFDs([]int{eventfd(t).Raw(), eventfd(t).Raw()}, "A=1", "", "B=", "A=2"))
	m, err := s.Receive()
	require.NoError(t, err)
	defer m.Close()
	assert.Equal(t, os.Getpid(), m.PID)
	assert.Equal(t, []string{"A=1", "B=", "A=2"}, m.Lines)
	assert.Len(t, m.FDs, 2)
	value, ok := m.Value("A")
	assert.True(t, ok)
	assert.Equal(t, "1", value)
	_, ok = m.Value("C")
	assert.False(t, ok)
	assert.True(t, m.Has("B="))
	assert.False(t, m.Has("B"))
}

func TestAMessageThatCannotBeUsedIsDroppedWithItsDescriptors(t *testing.T) {
	s, address := listen(t)
	notify := storetest.Notifier{Socket: address}
	for text, reason := range map[string]string{
		strings.Repeat("x", 4097): "longer than 4096 bytes",
		"A=1\x00B=1":              "NUL",
	} {
		require.NoError(t, notify.SendFDs([]int{eventfd(t).Raw()}, text))
		m, err := s.Receive()
		require.ErrorContains(t, err, reason)
		assert.Equal(t, os.Getpid(), m.PID)
		assert.Empty(t, m.FDs, "a leak fails the run")
	}
}

func TestDescriptorsThatDoNotFitIntoTheProcessAreAnError(t *testing.T) {
	s, address := listen(t)
	notify := storetest.Notifier{Socket: address}
	fd := eventfd(t)
	require.NoError(t, notify.SendFDs([]int{fd.Raw(), fd.Raw(), fd.Raw()}, "FDSTORE=1"))
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	lowest, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(lowest))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(lowest + 1), Max: before.Max}))
	_, err = s.Receive()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
	require.ErrorContains(t, err, "may not open more")
}

func TestTheStoreRefusesNamesThatTogetherAreTooLong(t *testing.T) {
	s := newStore(t, manager.Options{Max: 100, NameBytes: 12})
	assert.Zero(t, s.Apply(push(t, "abc", 2)))
	assert.Equal(t, 2, s.Apply(push(t, "abc", 3)))
	assert.Equal(t, []string{"abc", "abc", "abc"}, names(s))
	assert.Zero(t, s.Apply(manager.Message{Lines: []string{"FDSTOREREMOVE=1", "FDNAME=abc"}}))
	assert.Zero(t, s.Apply(push(t, "d", 6)))
	assert.Equal(t, 1, s.Apply(push(t, "d", 1)))
}

func TestWhatTheStoreHasNoRoomForIsCounted(t *testing.T) {
	s := newStore(t, manager.Options{Max: 3})
	assert.Equal(t, 3, s.Max())
	assert.Equal(t, 2, s.Apply(push(t, "a", 5)))
	s.Resize(4)
	assert.Zero(t, s.Apply(push(t, "b", 1)))
	s.Resize(1)
	assert.Equal(t, 1, s.Apply(push(t, "b", 1)))
	assert.Len(t, s.Kept(), 4)
}

// Eventfds share one inode, so the kernel is asked about each pair.
func BenchmarkStoreManyOfOneKind(b *testing.B) {
	for b.Loop() {
		s := newStore(b, manager.Options{Max: 2000})
		for range 20 {
			require.Zero(b, s.Apply(push(b, "x", 100)))
		}
		s.Close()
	}
}
