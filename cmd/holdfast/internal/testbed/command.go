package testbed

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// outsidePath lists where Debian keeps servers that PATH may not name.
var outsidePath = []string{"/usr/sbin", "/lib/systemd", "/usr/lib/postgresql/*/bin"}

// Command returns the path of an installed program. The directories outside
// PATH come first, so that PostgreSQL's own programs win over Debian's wrappers,
// which choose a cluster by themselves.
func Command(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range outsidePath {
		found, err := filepath.Glob(filepath.Join(dir, name))
		if err == nil && len(found) > 0 {
			return found[len(found)-1]
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed; install what the tests need with: .ci/setup (as root)", name)
	}
	return path
}

// Dir makes a directory that is removed after the test. Servers that give up
// root may enter it (the parent of t.TempDir is closed to them), and its path is
// short enough for the 107 bytes of a Unix socket's.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
