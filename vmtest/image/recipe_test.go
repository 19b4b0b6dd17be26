package image

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEachReleaseHasAnImageOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Releases {
		seen[hash(r)] = true
	}
	assert.Len(t, seen, len(Releases))
}

func TestRecipeListsHaveNoComments(t *testing.T) {
	assert.Contains(t, recipeList("packages"), "systemd-sysv")
	for _, name := range []string{"packages", "masked"} {
		for _, word := range recipeList(name) {
			assert.Regexp(t, `^[a-z0-9@_.+-]+$`, word)
		}
	}
}

func TestAnImageInTheCacheIsNotBuiltAgain(t *testing.T) {
	cache := t.TempDir()
	r := Releases[0]
	dir := filepath.Join(cache, "images", r.Suite+"-"+hash(r))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	i, err := Ensure(t.Context(), cache, r, t.Output())
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "vmlinuz"), i.Kernel())
}

func TestABuildThatFailsLeavesNoImage(t *testing.T) {
	t.Setenv("VMTEST_MIRROR", "file:///nowhere")
	cache := t.TempDir()
	_, err := Ensure(t.Context(), cache, Release{Suite: "nothing"}, t.Output())
	require.ErrorContains(t, err, "image nothing")
	if os.Geteuid() != 0 {
		assert.ErrorContains(t, err, "only root can build it")
	}
	images, err := filepath.Glob(filepath.Join(cache, "images", "nothing-*"))
	require.NoError(t, err)
	assert.Empty(t, images)
}
