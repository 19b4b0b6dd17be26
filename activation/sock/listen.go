package sock

import (
	"fmt"
	"io/fs"
	"math"

	"golang.org/x/sys/unix"
)

// Options of a socket to be made. The zero value is good.
type Options struct {
	// Mode is the permissions of a Unix socket's file, whatever the umask is.
	// 0 = 0666, as with systemd's SocketMode= and nginx: a socket is the same
	// whoever binds it, and the directory limits who gets there.
	Mode fs.FileMode
}

// ListenError says that an address cannot be listened on. [Hint] may know what
// to do about it.
type ListenError struct {
	Addr Addr
	Err  error // wraps the errno, or is ErrNotSocketFile
}

func (e *ListenError) Error() string {
	return fmt.Sprintf("listen on %s: %v", e.Addr, e.Err)
}

func (e *ListenError) Unwrap() error {
	return e.Err
}

// Listen makes a non-blocking listening stream socket, with the longest accept
// queue that net.core.somaxconn allows. Its Addr is the one that the kernel
// chose: port 0 is a free port by then. Every error is a [*ListenError].
//
// TCP sockets are TCP, never MPTCP as those of net.Listen. An address without
// a host takes IPv6 and IPv4, or IPv4 alone where there is no IPv6; an IPv6
// address, [::] too, takes IPv6 only.
//
// A Unix socket replaces a socket file on which nobody answers, as a killed
// process leaves it. Two instances that start together do not take the path
// from each other.
func Listen(a Addr, o Options) (*Listener, error) {
	var l *Listener
	var err error
	switch a.Network {
	case "tcp":
		l, err = listenTCP(a)
	case "unix":
		l, err = listenUnix(a, o)
	default:
		err = fmt.Errorf("network %q: %w", a.Network, unix.EPROTONOSUPPORT)
	}
	if err != nil {
		return nil, &ListenError{Addr: a, Err: err}
	}
	return l, nil
}

// listen turns a bound socket into a Listener that owns it.
func listen(fd *FD) (*Listener, error) {
	if err := unix.Listen(fd.Raw(), math.MaxInt32); err != nil { // the kernel cuts it to somaxconn
		return nil, err
	}
	info, err := Classify(fd.Raw())
	if err != nil {
		return nil, err
	}
	return &Listener{FD: fd, Info: info}, nil
}

// socket makes a stream socket that no child inherits.
func socket(family, protocol int) (*FD, error) {
	raw, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, err
	}
	return NewFD(raw), nil
}
