package sock

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// socketFile is the file that one bind(2) made: a path, and the inode by which
// it is told from the file of somebody who came later.
type socketFile struct {
	path     string
	dev, ino uint64
}

func newSocketFile(path string) (*socketFile, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return nil, err
	}
	return &socketFile{path: path, dev: st.Dev, ino: st.Ino}, nil
}

// remove unlinks the file if the path still leads to it. The lock keeps another
// instance from putting its own there between the look and the unlink.
func (f *socketFile) remove() error {
	unlock, err := lockDir(filepath.Dir(f.path))
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil // the directory is gone, and the file with it
	case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE):
		// Without a descriptor there is no lock. A file left behind is certain
		// then, another instance between two system calls is not likely.
		return f.removeLocked()
	case err != nil:
		return err
	}
	defer unlock()
	return f.removeLocked()
}

func (f *socketFile) removeLocked() error {
	there, err := f.there()
	if err != nil || !there {
		return err
	}
	return unix.Unlink(f.path)
}

// there tells whether the path leads to the file.
func (f *socketFile) there() (bool, error) {
	var st unix.Stat_t
	err := unix.Lstat(f.path, &st)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	return err == nil && st.Dev == f.dev && st.Ino == f.ino, err
}
