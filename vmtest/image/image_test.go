package image

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnImageInTheCacheIsNotBuiltAgain(t *testing.T) {
	cache := t.TempDir()
	r := Releases[0]
	dir := filepath.Join(cache, "images", r.Suite+"-"+hash(r))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	i, err := Ensure(t.Context(), cache, r, t.Output())
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "vmlinuz"), i.Kernel())
}

func TestABuildThatFailsLeavesNothing(t *testing.T) {
	t.Setenv("VMTEST_MIRROR", "file:///nowhere")
	cache := t.TempDir()
	_, err := Ensure(t.Context(), cache, Release{Suite: "nothing"}, t.Output())
	require.ErrorContains(t, err, "image nothing")
	if os.Geteuid() != 0 {
		assert.ErrorContains(t, err, "only root can build it")
	}
	left, err := filepath.Glob(filepath.Join(cache, "images", "*"))
	require.NoError(t, err)
	assert.Subset(t, []string{filepath.Join(cache, "images", "nothing.lock")}, left)
}

func TestWhoWaitsForTheBuildOfAnotherMayGiveUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := lockFile(t.Context(), path)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = lockFile(ctx, path)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, lock.Close())
	lock, err = lockFile(t.Context(), path)
	require.NoError(t, err)
	assert.NoError(t, lock.Close())
}
