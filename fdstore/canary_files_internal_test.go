package fdstore

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Each descriptor of a canary is once the one that there is none for. TestMain fails if
// one is left.
func TestACanaryWithoutDescriptorsIsAnErrorAndLeavesNothing(t *testing.T) {
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	lowest, err := unix.Eventfd(0, unix.EFD_CLOEXEC) // all below are taken
	require.NoError(t, err)
	require.NoError(t, unix.Close(lowest))
	for free := range maxEpollRow + 1 {
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(lowest + free), Max: limit.Max}))
		_, err := newCanary()
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		require.ErrorIs(t, err, unix.EMFILE, "with %d free", free)
	}
}
