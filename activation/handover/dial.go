package handover

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

var (
	// ErrNobody means that nobody is there to take over from.
	ErrNobody = errors.New("nobody answers there")

	// ErrHung means that an original does not answer in time, neither yes nor no: it
	// is stopped, or blocked, or has too much to do.
	ErrHung = errors.New("it does not answer")

	// ErrRefused means that the original says no to a request. The session goes on.
	ErrRefused = errors.New("refused")

	// ErrGone means that the original has ended in the middle of a session. Who has
	// its sockets by then is on his own and can go on with them.
	ErrGone = errors.New("it has gone")
)

// Dial connects to the original at path, to take over from it. It never waits: the
// kernel connects Unix sockets at once, or not at all. [Session.Hello] then finds out
// whether anybody answers.
//
// The error is ErrNobody when nobody listens there, and ErrHung when so many wait to
// be answered that nobody else can. Others are for people: the process that listens
// is of another user or is no original at all.
func Dial(path string) (*Session, error) {
	s, err := dial(path)
	if err != nil {
		return nil, fmt.Errorf("handover socket %s: %w", path, err)
	}
	return s, nil
}

func dial(path string) (*Session, error) {
	raw, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	fd := sock.NewFD(raw)
	if err := unix.Connect(raw, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, errors.Join(connectError(err), fd.Close())
	}
	// Without it, nil, it is only a hung process that cannot be dealt with.
	process, _ := pidfd.OpenPeer(raw)
	c, err := newConn(fd)
	s := &Session{conn: c, process: process}
	if err != nil {
		return nil, errors.Join(err, s.closeProcess())
	}
	if !c.peer.Trusted() {
		err := fmt.Errorf("%s runs as user %d: only this process's user and root can be taken over from", c.peer, c.peer.UID)
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func connectError(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ECONNREFUSED):
		return ErrNobody
	case errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("%w: its queue is full", ErrHung)
	case errors.Is(err, unix.EINVAL):
		return unix.ENAMETOOLONG
	case errors.Is(err, unix.EPROTOTYPE):
		return errors.New("another program listens there: its socket is of another type")
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: its own user and root may connect", err)
	}
	return err
}
