package manager

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// maxFDs is NOTIFY_FD_MAX of systemd. One message of the kernel has fewer.
const maxFDs = 768

// ErrNone means that no message is there.
var ErrNone = errors.New("no message")

// Socket is where services send messages to, their NOTIFY_SOCKET.
type Socket struct {
	fd *sock.FD
}

// Listen makes a socket at a path that nothing is at, or at "@name" in the abstract
// name space. Its file stays after Close.
func Listen(address string) (*Socket, error) {
	raw, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("notify socket: %w", err)
	}
	s := &Socket{sock.NewFD(raw)}
	err = unix.Bind(raw, &unix.SockaddrUnix{Name: address})
	if err == nil { // each message says then who sent it
		err = unix.SetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("notify socket %s: %w", address, err), s.Close())
	}
	return s, nil
}

// Raw is the socket's descriptor, to wait for messages.
func (s *Socket) Raw() int { return s.fd.Raw() }

// Close gives the socket up, with the messages in its queue.
func (s *Socket) Close() error { return s.fd.Close() }

// Receive takes one message out of the queue. It is ErrNone when there is none. Any
// other error is why a message was dropped, and PID says whose it was then.
func (s *Socket) Receive() (Message, error) {
	text := make([]byte, maxText+1)
	control := make([]byte, unix.CmsgSpace(unix.SizeofUcred)+unix.CmsgSpace(4*maxFDs))
	n, controlN, flags, _, err := unix.Recvmsg(s.fd.Raw(), text, control, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return Message{}, ErrNone
	case err != nil:
		return Message{}, fmt.Errorf("receive a message: %w", err)
	}
	m := parseControl(control[:controlN])
	m.Lines, err = parse(text[:n])
	if flags&unix.MSG_CTRUNC != 0 {
		err = errors.New("not all of its descriptors arrived: this process may not open more")
	}
	if err != nil {
		m.Close()
		return Message{PID: m.PID}, fmt.Errorf("message dropped: %w", err)
	}
	return m, nil
}

// parseControl owns every descriptor that the kernel has put there.
func parseControl(control []byte) (m Message) {
	parts, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return m
	}
	for _, part := range parts {
		if cred, err := unix.ParseUnixCredentials(&part); err == nil {
			m.PID = int(cred.Pid)
			continue
		}
		raws, err := unix.ParseUnixRights(&part)
		if err != nil {
			continue
		}
		for _, raw := range raws {
			m.FDs = append(m.FDs, sock.NewFD(raw))
		}
	}
	return m
}
