package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// listener is the socket of a server that package net serves. Both hold the kernel's
// socket, and Close gives it up for both.
type listener struct {
	net.Listener
	of *asked
}

// listener owns the socket, also after an error.
func (a *asked) listener() (net.Listener, error) {
	l, err := asNet(a.socket.FD)
	if err != nil {
		close(a.closed)
		return nil, errors.Join(err, a.socket.Close())
	}
	return &listener{l, a}, nil
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
// nobody finds it and gets no answer. It may be called twice.
func (l *listener) Close() error {
	err := errors.Join(l.of.socket.Close(), l.Listener.Close())
	l.of.once.Do(func() { close(l.of.closed) })
	return err
}
