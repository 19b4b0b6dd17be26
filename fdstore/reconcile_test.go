package fdstore_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
)

func anyName(string) bool { return true }

func ours(name string) bool {
	return strings.HasPrefix(name, "socket/") || strings.HasPrefix(name, "state/")
}

// hold is a descriptor that came back, by system call results.
func hold(t testing.TB, name string) func(raw int, err error) fdstore.Held {
	return func(raw int, err error) fdstore.Held {
		t.Helper()
		require.NoError(t, err)
		h := fdstore.Held{Name: name, FD: sock.NewFD(raw)}
		t.Cleanup(func() { assert.NoError(t, h.FD.Close()) })
		return h
	}
}

func TestWhatCameBackIsSortedByWhatItIs(t *testing.T) {
	dup := func(h fdstore.Held) (int, error) {
		return unix.FcntlInt(uintptr(h.FD.Raw()), unix.F_DUPFD_CLOEXEC, 0)
	}
	pipe := make([]int, 2)
	require.NoError(t, unix.Pipe2(pipe, unix.O_CLOEXEC))
	socket := hold(t, "socket/a")(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	memfd := hold(t, "state/1")(unix.MemfdCreate("x", unix.MFD_CLOEXEC))
	readEnd, writeEnd := hold(t, "socket/r")(pipe[0], nil), hold(t, "socket/w")(pipe[1], nil)
	event, otherEvent := hold(t, "socket/e")(unix.Eventfd(0, 0)), hold(t, "socket/f")(unix.Eventfd(0, 0))
	alsoA := hold(t, "socket/a")(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	stored := hold(t, "stored")(unix.Eventfd(0, 0))
	foreignCopy := hold(t, "their/socket")(dup(socket))

	socketAgain, socketTwice := hold(t, "socket/b")(dup(socket)), hold(t, "socket/a")(dup(socket))
	memfdAgain := hold(t, "state/2")(dup(memfd))
	eventAgain := hold(t, "socket/g")(dup(event))
	canary := hold(t, "canary/x")(unix.EpollCreate1(0))

	r := fdstore.Reconcile([]fdstore.Held{
		foreignCopy, socket, memfd, readEnd, writeEnd, event, otherEvent, canary, stored, alsoA,
		socketAgain, socketTwice, memfdAgain, eventAgain,
	}, ours)
	assert.Equal(t, []fdstore.Held{socket, memfd, readEnd, writeEnd, event, otherEvent, alsoA}, r.Known)
	assert.Equal(t, []fdstore.Held{foreignCopy, stored}, r.Foreign)
	assert.Equal(t, []fdstore.Stale{
		{Name: "canary/x", Reason: "left by a process that was killed during a push"},
		{Name: "socket/b", Reason: "the same file as socket/a"},
		{Name: "socket/a", Reason: "the same file as socket/a"},
		{Name: "state/2", Reason: "the same file as state/1"},
		{Name: "socket/g", Reason: "the same file as socket/e"},
	}, r.Stale)
	for _, h := range []fdstore.Held{canary, socketAgain, socketTwice, memfdAgain, eventAgain} {
		assert.Equal(t, -1, h.FD.Raw(), "%s is closed", h.Name)
	}
	for _, h := range append(r.Known, r.Foreign...) {
		assert.NotEqual(t, -1, h.FD.Raw(), "%s is open", h.Name)
	}
}

func TestTwoWhoOpenedOneFileAreTwo(t *testing.T) {
	memfd := hold(t, "state/1")(unix.MemfdCreate("x", unix.MFD_CLOEXEC))
	path := procPath(memfd)
	again := hold(t, "state/2")(unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0))
	r := fdstore.Reconcile([]fdstore.Held{memfd, again}, ours)
	assert.Len(t, r.Known, 2, "each has an offset of its own")
}
