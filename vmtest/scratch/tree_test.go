package scratch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func newDir(t *testing.T) *Dir {
	t.Helper()
	d, err := New()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Remove()) })
	return d
}

func TestWhatIsMountedIsNeverRemoved(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	tests := map[string]func(dir, other string) (at string, err error){
		"another file system": func(dir, _ string) (string, error) {
			return dir + "/b", unix.Mount("tmpfs", dir+"/b", "tmpfs", 0, "")
		},
		"a folder of the same one": func(dir, other string) (string, error) {
			return dir + "/b", unix.Mount(other, dir+"/b", "", unix.MS_BIND, "")
		},
		"a file": func(dir, other string) (string, error) {
			return dir + "/b/file", unix.Mount(other+"/file", dir+"/b/file", "", unix.MS_BIND, "")
		},
		"the folder itself": func(dir, other string) (string, error) {
			return dir, unix.Mount(other, dir, "", unix.MS_BIND, "")
		},
	}
	for name, mount := range tests {
		t.Run(name, func(t *testing.T) {
			base := newDir(t).Path
			dir, other := filepath.Join(base, "a\t\\ b"), filepath.Join(base, "other")
			for _, d := range []string{dir + "/b", other + "/b"} {
				require.NoError(t, os.MkdirAll(d, 0o755))
			}
			for _, file := range []string{dir + "/b/file", other + "/file"} {
				require.NoError(t, os.WriteFile(file, []byte("kept"), 0o644))
			}
			at, err := mount(dir, other)
			require.NoError(t, err)
			defer func() { require.NoError(t, unix.Unmount(at, 0)) }()
			require.ErrorContains(t, RemoveTree(dir), "something is mounted on "+at)
			content, err := os.ReadFile(other + "/file")
			require.NoError(t, err)
			assert.Equal(t, "kept", string(content))
		})
	}
}

func TestATreeIsRemovedOnlyByItsAbsolutePath(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("dir/sub", 0o755))
	require.ErrorContains(t, RemoveTree("dir"), "not an absolute path")
	assert.DirExists(t, "dir/sub")
	abs, err := filepath.Abs("dir")
	require.NoError(t, err)
	require.NoError(t, RemoveTree(abs))
	assert.NoDirExists(t, abs)
	assert.NoError(t, RemoveTree(abs), "nothing is there")
}

func TestOfALinkOnlyTheLinkIsRemoved(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	require.NoError(t, RemoveTree(link))
	assert.NoFileExists(t, link)
	assert.DirExists(t, dir)
}
