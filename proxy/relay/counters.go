package relay

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the kernel knows of a stream, whoever has moved it.

// errUnsteady is why counters could not be read.
var errUnsteady = errors.New("the counters of the socket do not stand still")

// readings is how often counters are read that change meanwhile.
const readings = 1000

// consumed is how many bytes a TCP socket has given to whoever read it: what has come,
// less what is in its queue. Only the hint of TCP_CM_INQ counts the queue as
// bytes_received does, a FIN in it included; after a reset, urgent data or a shutdown
// SIOCINQ does not.
func consumed(fd int32) (int64, error) {
	for range readings {
		before, err := tcpInfo(fd)
		if err != nil {
			return 0, err
		}
		queued := inqHint(fd)
		after, err := tcpInfo(fd)
		if err != nil {
			return 0, err
		}
		if before.Bytes_received == after.Bytes_received {
			return int64(after.Bytes_received) - int64(queued), nil
		}
	}
	return 0, errUnsteady
}

// lacksBytes tells whether the kernel has dropped bytes of a TCP socket that nobody has read:
// while urgent data does not come in line, a second urgent byte drops the first.
func lacksBytes(fd int32) bool {
	n, err := consumed(fd)
	return err == nil && n > 0
}

// written is how many bytes a TCP socket was given to send: what its peer has
// acknowledged, and what is in its queue.
func written(fd int32) (int64, error) {
	for range readings {
		before, err := tcpInfo(fd)
		if err != nil {
			return 0, err
		}
		queued := unacknowledged(fd)
		after, err := tcpInfo(fd)
		if err != nil {
			return 0, err
		}
		if before.Bytes_acked == after.Bytes_acked {
			return int64(after.Bytes_acked) + int64(queued), nil
		}
	}
	return 0, errUnsteady
}

// tcpInfo is unix.GetsockoptTCPInfo without garbage: a process that restores thousands of
// connections is to be at home in the memory of the one before.
func tcpInfo(fd int32) (info unix.TCPInfo, err error) {
	size := uint32(unix.SizeofTCPInfo)
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_INFO, uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return info, errno
	}
	return info, nil
}

// A Unix socket counts nothing. But the offset at which it is to be peeked at
// (SO_PEEK_OFF of socket(7)) goes down by what is read, by splice(2) too, to zero.
const counterStart = 1 << 30

// MostCounted is after how many bytes of a Unix socket its counter is set anew: before it is
// used up. It is only changed by tests, before there is a relay, to see that happen.
var MostCounted int64 = counterStart / 2

// setCounter begins to count what is read from a Unix socket. Nothing can be peeked at
// from then on.
func setCounter(fd int32) { setInt(fd, unix.SOL_SOCKET, unix.SO_PEEK_OFF, counterStart) }

// counted is how many bytes were read since setCounter; false where the counter is used
// up, or was never set.
func counted(fd int32) (int64, bool) {
	left, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEEK_OFF)
	return counterStart - int64(left), err == nil && left > 0 && left <= counterStart
}

// pending is how many bytes lie in a pipe.
func pending(pipe int32) (int64, error) {
	n, err := unix.IoctlGetInt(int(pipe), unix.TIOCINQ)
	return int64(n), err
}
