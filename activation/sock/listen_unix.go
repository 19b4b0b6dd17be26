package sock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxPath is the longest name of a Unix socket in bytes: sun_path without its
// closing NUL (unix(7)).
const maxPath = 107

// ErrNotSocketFile means that the path of a Unix socket is taken by a file of
// another kind. Such a file is never removed.
var ErrNotSocketFile = errors.New("the path exists and is not a socket")

func listenUnix(a Addr, typ int, o Options) (*Listener, error) {
	if err := validPath(a.Path); err != nil {
		return nil, err
	}
	fd, err := socket(unix.AF_UNIX, typ, 0)
	if err != nil {
		return nil, err
	}
	var l *Listener
	if a.isAbstract() {
		l, err = bindAbstract(fd, a.Path)
	} else {
		l, err = bindFile(fd, typ, a.Path, mode(o))
	}
	if err != nil {
		return nil, errors.Join(err, fd.Close())
	}
	return l, nil
}

func bindAbstract(fd *FD, name string) (*Listener, error) {
	if err := unix.Bind(fd.Raw(), &unix.SockaddrUnix{Name: name}); err != nil {
		return nil, err
	}
	return listen(fd)
}

// bindFile holds the directory's lock from the look at a stale file until the
// socket listens. Without it, a second instance that starts in between finds a
// socket on which nobody answers yet, and replaces it. A kill at any point
// leaves at most a stale file, and no lock.
//
// It binds the path itself, not a temporary name to be renamed: the kernel
// tells the name of the bind as the socket's address for ever.
func bindFile(fd *FD, typ int, path string, perm uint32) (*Listener, error) {
	unlock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer unlock()

	// The mode of the socket's own inode is the most that bind gives the file,
	// so it is at no time more open than asked for. The umask takes more away.
	if err := unix.Fchmod(fd.Raw(), perm); err != nil {
		return nil, fmt.Errorf("set mode %04o: %w", perm, err)
	}
	sa := &unix.SockaddrUnix{Name: path}
	err = unix.Bind(fd.Raw(), sa)
	if errors.Is(err, unix.EADDRINUSE) {
		if err := removeStale(path, typ); err != nil {
			return nil, err
		}
		err = unix.Bind(fd.Raw(), sa)
	}
	if err != nil {
		return nil, err
	}
	file, err := newSocketFile(path)
	if err != nil {
		return nil, err
	}
	l, err := finishFile(fd, path, perm)
	if err != nil {
		return nil, errors.Join(err, file.removeLocked())
	}
	l.file = file
	return l, nil
}

func finishFile(fd *FD, path string, perm uint32) (*Listener, error) {
	if err := os.Chmod(path, os.FileMode(perm)); err != nil {
		return nil, fmt.Errorf("set mode %04o: %w", perm, err)
	}
	return listen(fd)
}

func mode(o Options) uint32 {
	if o.Mode == 0 {
		return 0o666
	}
	return uint32(o.Mode.Perm())
}

func validPath(path string) error {
	switch {
	case path == "" || path == "@" || strings.ContainsRune(path, 0):
		return fmt.Errorf("not a socket path: %q: %w", path, unix.EINVAL)
	case len(path) > maxPath:
		return unix.ENAMETOOLONG
	}
	return nil
}
