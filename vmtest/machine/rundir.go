package machine

import (
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

const (
	runDirPrefix = "vmtest-run-"
	lockName     = "lock"
)

func newRunDir() (*runDir, error) {
	clearRunDirs()
	path, err := os.MkdirTemp("", runDirPrefix)
	if err != nil {
		return nil, err
	}
	lock, err := createLocked(filepath.Join(path, lockName))
	if err != nil {
		_ = os.RemoveAll(path)
		return nil, err
	}
	return &runDir{path, lock}, nil
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
		lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
		if err != nil {
			continue // not locked yet, or of another user
		}
		d := &runDir{dir, lock}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			d.remove()
		} else {
			_ = lock.Close()
		}
	}
}
