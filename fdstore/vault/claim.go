package vault

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
)

// ErrOwned means that the owner of a vault lives. It can be restored when that one is gone,
// or has closed it.
var ErrOwned = errors.New("a process that lives has the vault")

// claim makes this process the owner of a table for as long as it has the descriptor that
// comes back, and so to its end at the latest, however that comes: a lock (flock(2)) belongs
// to an open file, and this one is opened anew, by /proc. That of the table itself others
// have, too.
func claim(table *sock.FD) (*sock.FD, error) { return lock(table, unix.LOCK_EX) }

// lock takes one of the locks of flock(2) on a table.
func lock(table *sock.FD, how int) (*sock.FD, error) {
	raw, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", table.Raw()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENXIO):
		return nil, fmt.Errorf("%w: it is no file", ErrUnreadable)
	case err != nil:
		return nil, fmt.Errorf("open a vault's table anew: %w", err)
	}
	fd := sock.NewFD(raw)
	err = unix.Flock(raw, how|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = ErrOwned
	case err != nil:
		err = fmt.Errorf("lock a vault's table: %w", err)
	default:
		return fd, nil
	}
	return nil, errors.Join(err, fd.Close())
}

// IsOwned tells whether the owner of a vault lives, by its files. Those who ask at the same
// time do not take each other for it.
func IsOwned(files []fdstore.Held) bool {
	for _, f := range files {
		if f.Name != TableName {
			continue
		}
		fd, err := lock(f.FD, unix.LOCK_SH)
		if err == nil {
			_ = fd.Close()
		}
		return errors.Is(err, ErrOwned)
	}
	return false
}
