package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestDescriptorsAreRaisedToTheHardLimit(t *testing.T) {
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	low := before
	low.Cur = before.Max / 2
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	assert.EqualValues(t, before.Max, raiseDescriptors(quiet))
	var after unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &after))
	assert.Equal(t, before.Max, after.Cur)
}
