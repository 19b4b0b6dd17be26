package fdstore

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestACanaryTellsWhetherItIsWatched(t *testing.T) {
	c, err := newCanary()
	require.NoError(t, err)
	defer c.close()
	manager, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(manager)
	// What was pushed is another descriptor of the same file.
	received, err := unix.FcntlInt(uintptr(c.top().Raw()), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(received)

	for range 3 {
		watched, err := c.watched()
		require.NoError(t, err)
		assert.False(t, watched)
		require.NoError(t, unix.EpollCtl(manager, unix.EPOLL_CTL_ADD, received, &unix.EpollEvent{}))
		watched, err = c.watched()
		require.NoError(t, err)
		assert.True(t, watched)
		require.NoError(t, unix.EpollCtl(manager, unix.EPOLL_CTL_DEL, received, nil))
	}
}

func TestALookAtACanaryThatFailsIsNoAnswer(t *testing.T) {
	c, err := newCanary()
	require.NoError(t, err)
	c.close()
	_, err = c.watched()
	require.ErrorIs(t, err, unix.EBADF)
}
