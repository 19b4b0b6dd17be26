package relay

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An idle peer that vanished without a word is found after about 2 minutes: the
// first probe after a minute of silence, then four more, 15 s apart.
const (
	keepaliveIdle     = 60 * time.Second
	keepaliveInterval = 15 * time.Second
	keepaliveProbes   = 5
)

// newSocket makes the socket for an upstream. TCP is asked for by number: the
// default of a family may be MPTCP, whose counters lie.
func newSocket(family int) (int32, unix.Errno) {
	protocol := unix.IPPROTO_TCP
	if family == unix.AF_UNIX {
		protocol = 0
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, uintptr(family), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, uintptr(protocol))
	if errno != 0 {
		return -1, errno
	}
	if family == unix.AF_UNIX {
		setUnix(int32(fd))
	} else {
		setTCP(int32(fd))
	}
	return int32(fd), 0
}

// setUnix lets out-of-band bytes, which Unix streams know too, come in line.
func setUnix(fd int32) { setInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1) }

// setTCP sets the options of every TCP socket here. Set on a listening socket
// they are those of what it accepts. None can fail on a TCP socket.
func setTCP(fd int32) {
	setInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	setInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1)
	setInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	setInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(keepaliveIdle/time.Second))
	setInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(keepaliveInterval/time.Second))
	setInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepaliveProbes)
}

// setAccepted sets the options of a socket that has inherited none.
func setAccepted(fd int32, tcp bool) {
	if !tcp {
		setUnix(fd)
		return
	}
	setTCP(fd)
	setPlain(fd)
}

// setPlain clears what a received listening socket may hand down: beside SO_LINGER that bytes
// are told of only when there are many, and that the last ones of a write wait for more.
func setPlain(fd int32) {
	clearLinger(fd)
	setInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, 1)
	setInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, 0)
}

// clearLinger clears SO_LINGER, with which close(2) would hold up the loop, or reset what
// is to end in order.
func clearLinger(fd int32) { setLinger(fd, unix.Linger{}) }

func setLinger(fd int32, l unix.Linger) {
	_, _, _ = unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_LINGER, uintptr(unsafe.Pointer(&l)), unsafe.Sizeof(l), 0)
}

func setInt(fd int32, level, name, value int) {
	v := int32(value)
	_, _, _ = unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name), uintptr(unsafe.Pointer(&v)), unsafe.Sizeof(v), 0)
}

// exhausted tells the errors that mean that this process or this host has no more
// descriptors, epoll watches or memory, and may have some again later.
func exhausted(errno unix.Errno) bool {
	switch errno {
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.ENOSPC:
		return true
	}
	return false
}
