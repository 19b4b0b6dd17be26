package sock

import (
	"errors"

	"golang.org/x/sys/unix"
)

// MaxRights is how many descriptors one message can have beside it: SCM_MAX_FD of
// the kernel.
const MaxRights = 253

// Message is what [ReceiveRights] has received. The FDs are the caller's, also those
// that it did not expect.
type Message struct {
	N   int   // bytes of data; 0 = the end, the peer has closed
	FDs []*FD // close-on-exec; O_NONBLOCK as the sender has it
	Cut bool  // there were more bytes than fit (MSG_TRUNC)

	// Lost says that more descriptors were sent than arrived (MSG_CTRUNC): this
	// process has as many open as RLIMIT_NOFILE lets it, or a security module was
	// against. The kernel reports it nowhere else.
	Lost bool
}

// SendRights sends one message with copies of at most [MaxRights] descriptors
// beside it, as SCM_RIGHTS of unix(7). An error means that nothing was sent. It is
// EAGAIN while there is no room and the socket non-blocking, and ETOOMANYREFS when
// more descriptors are under way than the user of this process may have open.
//
// A message without data cannot be told from the end by who receives it.
func SendRights(fd int, data []byte, rights []int) error {
	var control []byte
	if len(rights) > 0 {
		control = unix.UnixRights(rights...)
	}
	for {
		err := unix.Sendmsg(fd, data, control, nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// ReceiveRights receives one message and the descriptors beside it. It is EAGAIN
// while there is none and the socket non-blocking.
func ReceiveRights(fd int, data []byte) (Message, error) {
	control := make([]byte, unix.CmsgSpace(4*MaxRights)) // a descriptor is an int32
	for {
		n, controlN, flags, _, err := unix.Recvmsg(fd, data, control, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return Message{}, err
		}
		return Message{
			N:    n,
			FDs:  parseRights(control[:controlN]),
			Cut:  flags&unix.MSG_TRUNC != 0,
			Lost: flags&unix.MSG_CTRUNC != 0,
		}, nil
	}
}

// parseRights owns every descriptor that the kernel has put into the control data.
// It is the kernel's and well-formed; other kinds come only to who asks for them.
func parseRights(control []byte) []*FD {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	var fds []*FD
	for _, m := range messages {
		raw, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, r := range raw {
			fds = append(fds, NewFD(r))
		}
	}
	return fds
}
