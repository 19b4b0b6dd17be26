package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse says that somebody listens on the socket that was to be made.
var ErrInUse = errors.New("in use")

// dirLockWait is how long a start waits for another that is between looking at
// the socket file and listening, which takes microseconds.
const dirLockWait = 2 * time.Second

// lockDir serialises all that make or remove socket files in dir. Without it,
// of two instances that find the same stale file the slower one removes the
// socket that the faster one has just made. Closing the result unlocks.
//
// The lock is flock(2) on the directory itself: it leaves no file behind, and
// the kernel drops it with the process.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(dirLockWait); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		case time.Now().After(deadline):
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: still held by another process after %s", dir, dirLockWait)
		}
	}
}

// removeStale makes room at path: a socket file that nobody listens on, such
// as kill -9 leaves behind, is removed. Anything else there is an error and is
// left alone. The directory is locked.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("a file that is not a socket is in the way")
	}
	// A stopped or hung process still owns its socket: the kernel completes the
	// connect for it, or says EAGAIN when its queue is full.
	conn, err := net.Dial("unix", path)
	switch {
	case err == nil:
		defer conn.Close()
		return fmt.Errorf("%w by %s", ErrInUse, listenerOf(conn.(*net.UnixConn)))
	case errors.Is(err, unix.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("%w by a process that does not accept", ErrInUse)
	case errors.Is(err, unix.EPROTOTYPE):
		return errors.New("a socket of another program is in the way")
	}
	return fmt.Errorf("cannot tell whether somebody listens there: %w", errors.Unwrap(err))
}

// listenerOf names the process at the other end, as far as /proc tells.
func listenerOf(conn *net.UnixConn) string {
	cred, err := peer(conn)
	if err != nil || cred.Pid == 0 { // 0 = of another PID namespace
		return "another process"
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cred.Pid))
	if err != nil {
		return fmt.Sprintf("process %d", cred.Pid)
	}
	return fmt.Sprintf("process %d (%s)", cred.Pid, strings.TrimSpace(string(comm)))
}
