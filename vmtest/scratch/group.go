package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// groupPatience is for the kernel to let go of a control group.
const groupPatience = 5 * time.Second

// removeGroup removes what a container has left of its control group: the
// folders, from the innermost out. Where there are none, nothing happens. A group
// counts as busy for a moment after its last process is gone.
func removeGroup(name string) {
	end := time.Now().Add(groupPatience)
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(mount, name), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			for errors.Is(os.Remove(dir), unix.EBUSY) && time.Now().Before(end) {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
}
