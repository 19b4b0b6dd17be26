package sock

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Another instance holds the lock of a directory for some system calls.
const (
	lockPatience = time.Second
	lockRetry    = 5 * time.Millisecond
)

// lockDir keeps other instances from binding or removing socket files in a
// directory. The lock is on the directory itself (flock(2)): it leaves no lock
// file, and the kernel drops it when the process dies.
func lockDir(dir string) (unlock func(), err error) {
	raw, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("directory %s: %w", dir, err)
	}
	fd := NewFD(raw)
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(lockRetry) {
		err = unix.Flock(raw, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = fd.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("lock directory %s: %w", dir, err), fd.Close())
		}
	}
}
