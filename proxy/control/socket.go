package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxPath is the longest path that fits struct sockaddr_un with its final NUL,
// see unix(7).
const maxPath = len(unix.RawSockaddrUnix{}.Path) - 1

// Socket is a control socket that this process listens on.
type Socket struct {
	path     string
	listener *net.UnixListener
	dev, ino uint64 // of the socket file that we made

	close func() error // closes once, see Close
}

// Listen makes the control socket at path, with mode 0600 and in a directory
// that is created with mode 0700 if only its last element is missing.
//
// A socket file that nobody listens on is replaced. Where somebody does, the
// error wraps ErrInUse and names the process. Missing rights are an error that
// wraps fs.ErrPermission.
func Listen(path string) (*Socket, error) {
	socket, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	return socket, nil
}

func listen(path string) (*Socket, error) {
	switch {
	case strings.HasPrefix(path, "@"):
		return nil, errors.New("an abstract socket has no mode that keeps other users out; use a path")
	case len(path) > maxPath:
		return nil, fmt.Errorf("the path has %d bytes, the kernel takes %d", len(path), maxPath)
	}
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()

	if err := removeStale(path); err != nil {
		return nil, err
	}
	listener, err := bind(path)
	if err != nil {
		return nil, err
	}
	s := &Socket{path: path, listener: listener}
	s.close = sync.OnceValue(s.unlinkAndClose)
	if s.dev, s.ino, err = fileID(path); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return s, nil
}

// bind listens at path. The mode is set on the unbound socket, and bind(2)
// gives it to the file: there is no instant at which others could connect, and
// the umask of the process, which its other goroutines share, stays as it is.
func bind(path string) (*net.UnixListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var chmodErr error
		err := raw.Control(func(fd uintptr) { chmodErr = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, chmodErr)
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) { // its text repeats the path
			err = op.Err
		}
		return nil, err
	}
	listener := l.(*net.UnixListener)
	listener.SetUnlinkOnClose(false) // it would remove whatever is at the path by then
	return listener, nil
}

// Close stops listening and removes the socket file, if the path still leads
// to the file that Listen made. Calls after the first do nothing.
func (s *Socket) Close() error { return s.close() }

func (s *Socket) unlinkAndClose() error {
	return errors.Join(s.unlink(), s.listener.Close())
}

// unlink runs while the socket is open, because an open socket pins its inode:
// after a close the number could already belong to another instance's file.
func (s *Socket) unlink() error {
	lock, err := lockDir(filepath.Dir(s.path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()

	dev, ino, err := fileID(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case dev != s.dev || ino != s.ino:
		return nil
	}
	return os.Remove(s.path)
}

func fileID(path string) (dev, ino uint64, err error) {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return 0, 0, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return stat.Dev, stat.Ino, nil
}
