// Package scratch gives folders for as long as a process lives: what one leaves that was
// killed is removed when the next one takes a folder. They are below the folder for
// temporary files, because the path of a Unix socket must be short.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Dir is such a folder. A lock tells one that is in use from one whose process was
// killed. The control group of its name, if there is one, goes with it.
type Dir struct {
	Path string
	lock *os.File
}

const (
	prefix   = "vmtest-run-"
	lockName = "lock"
)

// New makes a folder.
func New() (*Dir, error) {
	clearLeft()
	path, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	lock, err := createLocked(filepath.Join(path, lockName))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &Dir{path, lock}, nil
}

// createLocked makes a file that is locked from the moment it has its name: who
// looks for unlocked ones never takes it for one.
func createLocked(path string) (*os.File, error) {
	f, err := os.Create(path + ".new")
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// Group is the name of its control group.
func (d *Dir) Group() string { return filepath.Base(d.Path) }

// Remove removes it with all that is in it, and nothing if something is mounted there.
func (d *Dir) Remove() error {
	defer d.lock.Close()
	removeGroup(d.Group())
	return RemoveTree(d.Path)
}

// clearLeft removes what killed processes have left.
func clearLeft() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, dir := range dirs {
		lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
		if err != nil {
			continue // not locked yet, or of another user
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = (&Dir{dir, lock}).Remove()
		} else {
			_ = lock.Close()
		}
	}
}
