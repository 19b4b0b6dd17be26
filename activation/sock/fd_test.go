package sock_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func openPipe(t *testing.T) (r, w *sock.FD) {
	t.Helper()
	var p [2]int
	require.NoError(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
	r, w = sock.NewFD(p[0]), sock.NewFD(p[1])
	t.Cleanup(func() {
		assert.NoError(t, r.Close())
		assert.NoError(t, w.Close())
	})
	return r, w
}

func TestFDIsClosedOnceAlsoByManyGoroutines(t *testing.T) {
	r, w := openPipe(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { assert.NoError(t, w.Close()) })
	}
	wg.Wait()
	assert.Equal(t, -1, w.Raw())

	n, err := unix.Read(r.Raw(), make([]byte, 1))
	require.NoError(t, err)
	assert.Zero(t, n, "the pipe must be at its end: the writer is closed")
}

func TestFDDisownedStaysOpen(t *testing.T) {
	r, _ := openPipe(t)
	raw := r.Disown()
	assert.Equal(t, -1, r.Raw())
	require.NoError(t, r.Close())
	assert.Equal(t, -1, r.Disown())

	_, err := unix.FcntlInt(uintptr(raw), unix.F_GETFD, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(raw))
}

func TestFDZeroValueIsClosedAndNotStdin(t *testing.T) {
	var fd sock.FD
	assert.Equal(t, -1, fd.Raw())
	require.NoError(t, fd.Close())
	_, err := unix.FcntlInt(0, unix.F_GETFD, 0)
	require.NoError(t, err, "stdin must be open still")
}

func TestFDCloseErrorNamesTheDescriptor(t *testing.T) {
	const notOpen = 1 << 20
	err := sock.NewFD(notOpen).Close()
	require.ErrorIs(t, err, unix.EBADF)
	assert.ErrorContains(t, err, "1048576")
}

func TestLeakIsTracedToWhereItWasOpened(t *testing.T) {
	leaked := sock.TraceLeaks()
	before := len(leaked())
	r, _ := openPipe(t)
	stacks := leaked()
	require.Len(t, stacks, before+2)
	assert.Contains(t, stacks[0]+stacks[1], "openPipe")
	require.NoError(t, r.Close())
	assert.Len(t, leaked(), before+1)
}
