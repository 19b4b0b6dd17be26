package image

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAStepThatTakesTooLongMayCleanUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	cleaned := filepath.Join(t.TempDir(), "cleaned")
	began := time.Now()
	err := runQuietly(exec.CommandContext(ctx, "sh", "-c", `trap ': >"$0"; exit 1' TERM; sleep 60 >/dev/null 2>&1 & wait`, cleaned))
	require.ErrorContains(t, err, "sh: ")
	assert.FileExists(t, cleaned)
	assert.Less(t, time.Since(began), 20*time.Second)
}

func TestWhatIsMountedIsNeverRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b")
	inside := filepath.Join(dir, "dev")
	require.NoError(t, unix.Mkdir(dir, 0o755))
	require.NoError(t, unix.Mkdir(inside, 0o755))
	if err := unix.Mount("tmpfs", inside, "tmpfs", 0, ""); err != nil {
		t.Skipf("needs root: mount: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, unix.Symlink(dir, link))
	for _, path := range []string{dir, link} {
		assert.ErrorContains(t, removeTree(path), "unmount it")
	}
	require.NoError(t, unix.Unmount(inside, 0))
	require.NoError(t, removeTree(dir))
	assert.NoDirExists(t, dir)
	assert.NoError(t, removeTree(dir), "nothing is there")
}
