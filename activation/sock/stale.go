package sock

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// removeStale removes a socket file on which nobody answers, to make room for a
// socket of type typ. It fails with EADDRINUSE when somebody does, and with
// ErrNotSocketFile for other files. The caller holds the directory's lock.
func removeStale(path string, typ int) error {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if errors.Is(err, unix.ENOENT) {
		return nil // its owner has just gone in good order
	}
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK { // a symbolic link too: it is not ours to follow
		return ErrNotSocketFile
	}
	if err := probe(path, typ); err != nil {
		return err
	}
	if err := unix.Unlink(path); err != nil {
		return fmt.Errorf("remove the stale file: %w", err)
	}
	return nil
}

// probe connects to a socket file as a client of type typ. It gives nil when nobody
// has it open, and a heldError when somebody has. A stopped or hung process still has
// its socket: the kernel completes the connect for it, or says EAGAIN when its queue
// is full.
func probe(path string, typ int) error {
	fd, err := socket(unix.AF_UNIX, typ, 0)
	if err != nil {
		return err
	}
	defer fd.Close()
	switch err := unix.Connect(fd.Raw(), &unix.SockaddrUnix{Name: path}); {
	case err == nil:
		return &heldError{holder(fd)}
	case errors.Is(err, unix.ECONNREFUSED):
		return nil
	case errors.Is(err, unix.EAGAIN):
		return &heldError{"a process that does not accept"}
	case errors.Is(err, unix.EPROTOTYPE):
		return &heldError{"a socket of another type"}
	default:
		return fmt.Errorf("ask who answers there: %w", err)
	}
}
