package fdstore_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore"
)

func TestMemfdNeverChanges(t *testing.T) {
	fd, err := fdstore.Memfd("state", []byte("content"))
	require.NoError(t, err)
	defer fd.Close()
	_, err = unix.Pwrite(fd.Raw(), []byte("C"), 0)
	require.ErrorIs(t, err, unix.EPERM)
	_, err = unix.Pwrite(fd.Raw(), []byte("more"), 7)
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorIs(t, unix.Ftruncate(fd.Raw(), 1), unix.EPERM)
	_, err = unix.FcntlInt(uintptr(fd.Raw()), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE)
	require.ErrorIs(t, err, unix.EPERM)
	link, err := os.Readlink(procPath(fdstore.Held{FD: fd}))
	require.NoError(t, err)
	assert.Equal(t, "/memfd:state (deleted)", link)
	flags, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_GETFD, 0)
	require.NoError(t, err)
	assert.Equal(t, unix.FD_CLOEXEC, flags)
}

func TestMemfdIsReadWhole(t *testing.T) {
	for _, content := range []string{"", "x", strings.Repeat("0123456789abcdef", 1<<16)} {
		fd, err := fdstore.Memfd("x", []byte(content))
		require.NoError(t, err)
		_, err = unix.Seek(fd.Raw(), 5, 0)
		require.NoError(t, err)
		for range 2 { // each process that gets it may read it
			got, err := fdstore.ReadMemfd(fd.Raw(), int64(len(content)))
			require.NoError(t, err)
			assert.True(t, bytes.Equal([]byte(content), got))
		}
		offset, err := unix.Seek(fd.Raw(), 0, 1)
		require.NoError(t, err)
		assert.Equal(t, int64(5), offset, "the offset is everybody's")
		require.NoError(t, fd.Close())
	}
}

func TestMemfdSaysWhatItCannotDo(t *testing.T) {
	_, err := fdstore.Memfd(strings.Repeat("x", 250), nil)
	require.ErrorIs(t, err, unix.EINVAL)
}

func TestReadMemfdRefusesWhatIsNone(t *testing.T) {
	memfd, err := fdstore.Memfd("x", []byte("12345"))
	require.NoError(t, err)
	defer memfd.Close()
	pipe := make([]int, 2)
	require.NoError(t, unix.Pipe2(pipe, unix.O_CLOEXEC))
	owned(t, pipe[0])
	owned(t, pipe[1])
	open := hold(t, "")(unix.MemfdCreate("x", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING))
	half := hold(t, "")(unix.MemfdCreate("x", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING))
	_, err = unix.FcntlInt(uintptr(half.FD.Raw()), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
	require.NoError(t, err)
	file := hold(t, "")(unix.Open(filepath.Join(t.TempDir(), "x"), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600))

	for what, fd := range map[string]int{
		"pipe": pipe[0], "eventfd": eventfd(t), "memfd without seals": open.FD.Raw(),
		"memfd that can be written to": half.FD.Raw(), "file": file.FD.Raw(), "nothing": -1,
	} {
		_, err := fdstore.ReadMemfd(fd, 100)
		assert.ErrorContains(t, err, "not a sealed memfd", what)
	}
	_, err = fdstore.ReadMemfd(memfd.Raw(), 4)
	require.ErrorContains(t, err, "it has 5 bytes, more than the 4 expected at most")
}
