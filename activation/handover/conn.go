package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// conn is a connection with one peer, message by message.
type conn struct {
	file *os.File // never asked for Fd, which would make it blocking
	raw  syscall.RawConn
	buf  []byte
	peer sock.Peer
}

// newConn owns the connected non-blocking socket, whatever happens.
func newConn(fd *sock.FD) (*conn, error) {
	peer, err := sock.PeerOf(fd.Raw())
	if err != nil {
		return nil, errors.Join(err, fd.Close())
	}
	file := os.NewFile(uintptr(fd.Disown()), "handover")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &conn{file: file, raw: raw, buf: make([]byte, maxMessage), peer: peer}, nil
}

func (c *conn) Close() error {
	return c.file.Close()
}

// longAgo is a deadline that ends what waits now.
var longAgo = time.Unix(1, 0)

// within ends what waits on the connection when ctx ends, until release is called.
func (c *conn) within(ctx context.Context) (release func()) {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = c.file.SetDeadline(longAgo) // fails when it is closed, and nobody waits then
	})
	return func() {
		if !stop() {
			<-ended
		}
		_ = c.file.SetDeadline(time.Time{})
	}
}

// send sends a message, with copies of the descriptors beside it. It is io.EOF when
// the peer has gone, and the error of ctx when that has ended first.
func (c *conn) send(ctx context.Context, m message, fds ...int) error {
	data, err := encode(m)
	if err != nil {
		return err
	}
	defer c.within(ctx)()
	var sendErr error
	err = c.raw.Write(func(fd uintptr) (done bool) {
		sendErr = sock.SendRights(int(fd), data, fds)
		return !errors.Is(sendErr, unix.EAGAIN)
	})
	if err := ended(ctx, errors.Join(err, sendErr)); err != nil {
		return fmt.Errorf("send %s: %w", m.Type, err)
	}
	return nil
}

// receive receives a message and the descriptors beside it, one for each of its
// sockets. Errors are those of send, errMalformed, and a lostError; there are no
// descriptors then. With a lostError there is the message, without its sockets.
func (c *conn) receive(ctx context.Context) (message, []*sock.FD, error) {
	defer c.within(ctx)()
	var got sock.Message
	var receiveErr error
	err := c.raw.Read(func(fd uintptr) (done bool) {
		got, receiveErr = sock.ReceiveRights(int(fd), c.buf)
		return !errors.Is(receiveErr, unix.EAGAIN)
	})
	if err := ended(ctx, errors.Join(err, receiveErr)); err != nil {
		return message{}, nil, err
	}
	m, err := c.take(got)
	if err != nil {
		closeAll(got.FDs)
		return m, nil, err
	}
	return m, got.FDs, nil
}

func (c *conn) take(got sock.Message) (message, error) {
	switch {
	case got.N == 0:
		return message{}, io.EOF
	case got.Cut:
		return message{}, fmt.Errorf("%w: more than %d bytes", errMalformed, maxMessage)
	}
	m, err := decode(c.buf[:got.N])
	switch {
	case err != nil:
		return message{}, err
	case got.Lost:
		err = &lostError{came: len(got.FDs), sent: len(m.Sockets)}
		m.Sockets = nil
		return m, err
	case len(m.Sockets) != len(got.FDs):
		return message{}, fmt.Errorf("%w: %s for %d sockets has %d descriptors", errMalformed, m.Type, len(m.Sockets), len(got.FDs))
	}
	return m, nil
}

// ended says why a call on a connection did not do its work.
func ended(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ctx.Err()
	case errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
		return io.EOF
	}
	return err
}

// lostError means that descriptors did not arrive.
type lostError struct {
	came, sent int
}

func (e *lostError) Error() string {
	s := fmt.Sprintf("%d of %d descriptors arrived", e.came, e.sent)
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		s += fmt.Sprintf(": this process may have %d open (RLIMIT_NOFILE)", limit.Cur)
	}
	return s
}

func closeAll(fds []*sock.FD) {
	for _, fd := range fds {
		_ = fd.Close() // copies: nothing was done with them
	}
}
