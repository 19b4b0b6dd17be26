package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// runDir is the folder of one machine while it runs. It is below the folder for
// temporary files, because the path of a Unix socket must be short. A lock tells
// one that is in use from one whose process was killed; the next machine clears
// those away.
type runDir struct {
	path string
	lock *os.File
}

const runDirPrefix = "vmtest-run-"

func newRunDir() (*runDir, error) {
	clearRunDirs()
	path, err := os.MkdirTemp("", runDirPrefix)
	if err != nil {
		return nil, err
	}
	lock, err := os.Create(filepath.Join(path, "lock"))
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return &runDir{path, lock}, nil
}

func (d *runDir) agentSocket() string { return filepath.Join(d.share(), "agent.sock") }
func (d *runDir) console() string     { return filepath.Join(d.path, "console") }
func (d *runDir) initrd() string      { return filepath.Join(d.path, "initrd") }
func (d *runDir) root() string        { return filepath.Join(d.path, "root") }
func (d *runDir) overlay() string     { return filepath.Join(d.path, "overlay") }
func (d *runDir) share() string       { return filepath.Join(d.path, "share") }

// cgroup is the name of the machine's control group.
func (d *runDir) cgroup() string { return filepath.Base(d.path) }

func (d *runDir) remove() {
	removeCgroup(d.cgroup())
	_ = os.RemoveAll(d.path)
	_ = d.lock.Close()
}

// clearRunDirs removes what killed processes have left.
func clearRunDirs() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), runDirPrefix+"*"))
	for _, dir := range dirs {
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue // about to be locked
		}
		if err != nil {
			continue
		}
		d := &runDir{dir, lock}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			d.remove()
		} else {
			_ = lock.Close()
		}
	}
}
