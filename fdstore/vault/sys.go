package vault

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// mostFDs is how many descriptors a record has.
const mostFDs = 2

// controlMessage is SCM_RIGHTS of unix(7) with room for mostFDs.
type controlMessage struct {
	header unix.Cmsghdr
	fds    [mostFDs]int32
}

// controlSize is CMSG_SPACE of two descriptors, and of one as well.
const controlSize = int(unsafe.Sizeof(controlMessage{}))

// envelope is a message of sendmsg(2) and recvmsg(2) with all that it points to, made
// once and used again: no call allocates. It must not be moved.
//
// The calls never block (MSG_DONTWAIT). They go without the scheduler's bookkeeping
// (RawSyscall), which would cost a tenth of the shorter ones.
type envelope struct {
	header  unix.Msghdr
	iov     unix.Iovec
	control controlMessage
	record  [recordSize]byte
}

func newEnvelope() *envelope {
	e := &envelope{}
	e.iov.Base = &e.record[0]
	e.iov.SetLen(recordSize)
	e.header.Iov = &e.iov
	e.header.SetIovlen(1)
	e.header.Control = (*byte)(unsafe.Pointer(&e.control))
	e.control.header.Level = unix.SOL_SOCKET
	e.control.header.Type = unix.SCM_RIGHTS
	return e
}

// forward sends what was peeked at, as it is.
func (e *envelope) forward(fd int, l letter) unix.Errno {
	for i, file := range l.fds {
		e.control.fds[i] = int32(file.Raw())
	}
	e.iov.Base = &l.data[0]
	e.iov.SetLen(len(l.data))
	defer func() {
		e.iov.Base = &e.record[0]
		e.iov.SetLen(recordSize)
	}()
	return e.send(fd, len(l.fds))
}

// send sends the record with count descriptors of control.fds, which may be 0.
func (e *envelope) send(fd, count int) unix.Errno {
	e.header.SetControllen(controlSize)
	e.control.header.SetLen(unix.CmsgLen(4 * count))
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&e.header)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if errno != unix.EINTR {
			return errno
		}
	}
}

// discard dequeues a message into e.record. The kernel closes the descriptors that
// came beside it: with no buffer for them none is installed. n is what arrived.
func (e *envelope) discard(fd int) (n int, errno unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&e.record[0])), recordSize, unix.MSG_DONTWAIT, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// letter is a message that was peeked at.
type letter struct {
	data []byte // as much of it as fits, valid until the next peek
	size int    // of the whole message
	fds  []*sock.FD
	lost bool // more descriptors came than there are in fds (MSG_CTRUNC)
}

// peek looks at a message of a queue and leaves it there. The descriptors are new
// ones, close-on-exec.
func peek(fd int, data []byte) (letter, unix.Errno) {
	var control controlMessage
	iov := unix.Iovec{Base: &data[0]}
	iov.SetLen(len(data))
	header := unix.Msghdr{Iov: &iov, Control: (*byte)(unsafe.Pointer(&control))}
	header.SetIovlen(1)
	header.SetControllen(controlSize)
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&header)),
			unix.MSG_PEEK|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC|unix.MSG_TRUNC)
		switch errno {
		case unix.EINTR:
			continue
		case 0:
		default:
			return letter{}, errno
		}
		return letter{
			data: data[:min(int(n), len(data))],
			size: int(n),
			fds:  control.owned(int(header.Controllen)),
			lost: header.Flags&unix.MSG_CTRUNC != 0,
		}, 0
	}
}

// owned takes charge of the descriptors that came, if the kernel has written so much.
func (c *controlMessage) owned(written int) []*sock.FD {
	if written < unix.SizeofCmsghdr || c.header.Level != unix.SOL_SOCKET || c.header.Type != unix.SCM_RIGHTS {
		return nil
	}
	n := min((int(c.header.Len)-unix.SizeofCmsghdr)/4, mostFDs)
	fds := make([]*sock.FD, n)
	for i := range fds {
		fds[i] = sock.NewFD(int(c.fds[i]))
	}
	return fds
}

func (l letter) close() {
	for _, fd := range l.fds {
		_ = fd.Close()
	}
}

// reset ends the connections whose descriptors came, so that no peer takes what it
// has got for the whole: a TCP one by a RST, whoever else has a copy. It does nothing
// to others, which have no such thing.
func (l letter) reset() {
	for _, fd := range l.fds {
		var unspec [unix.SizeofSockaddrInet4]byte // AF_UNSPEC is 0
		_, _, _ = unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd.Raw()), uintptr(unsafe.Pointer(&unspec)), uintptr(len(unspec)))
	}
}
