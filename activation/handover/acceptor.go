package handover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// acceptor accepts on the handover socket by a descriptor of its own. Package net's
// listener would do, but it makes the socket blocking for a moment, and another
// process may hold it.
type acceptor struct {
	file *os.File
	raw  syscall.RawConn
}

func newAcceptor(l *sock.Listener) (*acceptor, error) {
	fd, err := unix.FcntlInt(uintptr(l.FD.Raw()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate descriptor %d: %w", l.FD.Raw(), err)
	}
	file := os.NewFile(uintptr(fd), l.Addr().Path)
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &acceptor{file: file, raw: raw}, nil
}

// accept waits for a connection until ctx ends, for good.
func (a *acceptor) accept(ctx context.Context) (*sock.FD, error) {
	defer context.AfterFunc(ctx, func() { _ = a.file.SetReadDeadline(longAgo) })()
	var accepted int
	var acceptErr error
	err := a.raw.Read(func(fd uintptr) (done bool) {
		accepted, _, acceptErr = unix.Accept4(int(fd), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		return !errors.Is(acceptErr, unix.EAGAIN)
	})
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case acceptErr != nil:
		return nil, os.NewSyscallError("accept4", acceptErr)
	}
	return sock.NewFD(accepted), nil
}

func (a *acceptor) Close() error {
	return a.file.Close()
}
