package manager

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// kinds of descriptors: those of one kind are other files each, and the last is a copy
// of the one before.
func kinds(t *testing.T) map[string][]file {
	t.Helper()
	take := func(raws ...int) (files []file) {
		for _, raw := range raws {
			fd := sock.NewFD(raw)
			t.Cleanup(func() { assert.NoError(t, fd.Close()) })
			files = append(files, fileOf(fd))
		}
		return files
	}
	must := func(raw int, err error) int {
		t.Helper()
		require.NoError(t, err)
		return raw
	}
	withCopy := func(raws ...int) []file {
		last := raws[len(raws)-1]
		return take(append(raws, must(unix.FcntlInt(uintptr(last), unix.F_DUPFD_CLOEXEC, 0)))...)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	pipe := make([]int, 2)
	require.NoError(t, unix.Pipe2(pipe, unix.O_CLOEXEC))
	open := func(name string, mode int) int { return must(unix.Open(name, mode|unix.O_CLOEXEC, 0)) }
	return map[string][]file{
		"socket": withCopy(pair[:]...),
		"pipe":   withCopy(pipe...),
		"file":   withCopy(open("/proc/self/exe", unix.O_RDONLY), open(os.DevNull, unix.O_RDONLY), open(os.DevNull, unix.O_RDONLY)),
		"event":  withCopy(must(unix.Eventfd(0, unix.EFD_CLOEXEC)), must(unix.Eventfd(0, unix.EFD_CLOEXEC))),
	}
}

func TestOnlyCopiesAreTheSameFile(t *testing.T) {
	for name, files := range kinds(t) {
		copied := len(files) - 2
		for i := range files {
			for j := range files {
				want := i == j || min(i, j) == copied
				assert.Equal(t, want, files[i].same(files[j]), "%s %d and %d", name, i, j)
			}
		}
	}
}

func TestWithoutTheKernelsAnswerAGuessErrsTowardsOther(t *testing.T) {
	k := kinds(t)
	// same has compared the inodes then, so what has another one is not asked about.
	assert.True(t, k["socket"][1].seemsSame(k["socket"][2]))
	assert.True(t, k["pipe"][1].seemsSame(k["pipe"][2]))
	assert.False(t, k["pipe"][0].seemsSame(k["pipe"][1]), "the other end")
	assert.False(t, k["event"][1].seemsSame(k["event"][2]))
	assert.False(t, k["file"][2].seemsSame(k["file"][3]), "devices may be others each time")
}
