package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// place is where the running process finds its keeper, and the next keeper finds the
// running process.
type place struct {
	notify string // address of the notify socket
	job    string // address of the job socket
	id     string // of this keeper and no other
	record string // path of the number of the main process; "" = none
	lock   *sock.FD
}

// openPlace makes a directory a place, for one keeper at a time. Without one the place
// is in the abstract name space, which needs nothing that can be written to; nobody
// comes back to it.
func openPlace(dir string) (*place, error) {
	id := fmt.Sprintf("%016x", rand.Uint64())
	if dir == "" {
		name := "@keeper/" + id + "/"
		return &place{notify: name + "notify", job: name + "job", id: id}, nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	p := &place{
		notify: filepath.Join(dir, "notify.sock"),
		job:    filepath.Join(dir, "job.sock"),
		id:     id,
		record: filepath.Join(dir, "main"),
	}
	const longest = 107 // bytes of a path in a sockaddr_un
	if len(p.notify) > longest {
		return nil, fmt.Errorf("%s: too long for the path of a socket, %d bytes", p.notify, longest)
	}
	if p.lock, err = lock(filepath.Join(dir, "lock")); err != nil {
		return nil, err
	}
	if err := p.removeSockets(); err != nil { // of a keeper that was killed
		return nil, errors.Join(err, p.lock.Close())
	}
	return p, nil
}

// lock takes the lock that a keeper has for its life. The file stays: to remove it
// would let in who has just opened it.
func lock(path string) (*sock.FD, error) {
	raw, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	fd := sock.NewFD(raw)
	err = unix.Flock(raw, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("another keeper is running")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), fd.Close())
	}
	return fd, nil
}

func (p *place) removeSockets() error {
	for _, path := range []string{p.notify, p.job} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// close leaves the record, which is there only if a process still runs.
func (p *place) close() error {
	if p.record == "" {
		return nil
	}
	return errors.Join(p.removeSockets(), p.lock.Close())
}
