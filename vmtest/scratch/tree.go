package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// RemoveTree removes dir, an absolute path, and all below it; that there is none is
// no error. If something is mounted there, it removes nothing: it would be the
// content of another place of this host.
func RemoveTree(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("remove %s: not an absolute path", dir)
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return notAMount(path)
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return os.RemoveAll(dir)
}

// notAMount asks the kernel, because a folder that is mounted twice has one device
// number in both places. It has the answer since Linux 5.8.
func notAMount(path string) error {
	var s unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &s); err != nil {
		return fmt.Errorf("statx %s: %w", path, err)
	}
	if s.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return fmt.Errorf("whether %s is a mount cannot be known: Linux is older than 5.8", path)
	}
	if s.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return fmt.Errorf("something is mounted on %s; unmount it", path)
	}
	return nil
}
