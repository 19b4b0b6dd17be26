package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// listener is a socket of package sock that package net serves. Both hold the
// kernel's socket, and Close gives it up for both.
type listener struct {
	net.Listener
	socket *sock.Listener
}

// listen opens a socket for a server of this process itself. Errors are those of
// sock.Listen.
func listen(a sock.Addr, o sock.Options) (*listener, error) {
	socket, err := sock.Listen(a, o)
	if err != nil {
		return nil, err
	}
	l, err := asNet(socket.FD)
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return &listener{Listener: l, socket: socket}, nil
}

// asNet is the socket with a descriptor of its own.
func asNet(fd *sock.FD) (net.Listener, error) {
	raw, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate descriptor %d: %w", fd.Raw(), err)
	}
	file := os.NewFile(uintptr(raw), "")
	defer file.Close() // FileListener makes another copy
	return net.FileListener(file)
}

// Close implements net.Listener. The file of a Unix socket goes first, so that
// nobody finds it and gets no answer.
func (l *listener) Close() error {
	return errors.Join(l.socket.Close(), l.Listener.Close())
}
