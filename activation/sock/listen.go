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

	// Beside are sockets of this process that are about to go. The address may
	// overlap with theirs, as [::]:80 does with 127.0.0.1:80: both listen then.
	// Clients go to the more exact address of the two, and of two wildcards the
	// IPv4 one has those of IPv4. Retire an old socket to give all to the new one.
	Beside []*Listener
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

// Listen makes a non-blocking socket to which clients get: a listening
// socket, with the longest accept queue that net.core.somaxconn allows, or a UDP
// socket. Its Addr is the one that the kernel chose: port 0 is a free port by
// then. Every error is a [*ListenError].
//
// TCP sockets are TCP, never MPTCP as those of net.Listen. An IP address without
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
	case "tcp", "udp":
		l, err = listenIP(a, o.Beside)
	case "unix":
		l, err = listenUnix(a, unix.SOCK_STREAM, o)
	case "unixpacket":
		l, err = listenUnix(a, unix.SOCK_SEQPACKET, o)
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
	return newListener(fd)
}

// socket makes a non-blocking socket that no child inherits.
func socket(family, typ, protocol int) (*FD, error) {
	raw, err := unix.Socket(family, typ|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, err
	}
	return NewFD(raw), nil
}
