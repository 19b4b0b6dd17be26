package relay

import (
	"time"

	"golang.org/x/sys/unix"
)

// A peer that vanished without a word is found after about 2 minutes: the first
// probe after a minute of silence, then four more, 15 s apart.
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
	if family != unix.AF_UNIX {
		setTCP(int32(fd))
	}
	return int32(fd), 0
}

// exhausted tells the errors that mean that this process or this host has no more
// descriptors or memory, and may have some again later.
func exhausted(errno unix.Errno) bool {
	switch errno {
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
		return true
	}
	return false
}

// setTCP sets the options of every TCP socket here. Set on a listening socket
// they are those of what it accepts.
func setTCP(fd int32) {
	setInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	setInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1)
	setInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	setInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(keepaliveIdle/time.Second))
	setInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(keepaliveInterval/time.Second))
	setInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepaliveProbes)
}

func isTCP(fd int32) bool {
	domain, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
	return err == nil && (domain == unix.AF_INET || domain == unix.AF_INET6)
}

// spares holds one unused upstream socket a family, so that a client is only
// accepted when there is a socket to serve it with.
type spares struct{ inet, inet6, local int32 }

func newSpares() spares { return spares{inet: -1, inet6: -1, local: -1} }

func (s *spares) of(family int) *int32 {
	switch family {
	case unix.AF_INET6:
		return &s.inet6
	case unix.AF_UNIX:
		return &s.local
	default:
		return &s.inet
	}
}

// ready makes sure that there is a spare of the family; of IPv4 where the family
// is not known (0).
func (s *spares) ready(family int) (int32, unix.Errno) {
	if family == 0 {
		family = unix.AF_INET
	}
	spare := s.of(family)
	if *spare >= 0 {
		return *spare, 0
	}
	fd, errno := newSocket(family)
	*spare = fd
	return fd, errno
}

// take gives out the spare of the family, or a new socket where there is none.
func (s *spares) take(family int) (int32, unix.Errno) {
	fd, errno := s.ready(family)
	*s.of(family) = -1
	return fd, errno
}

func (s *spares) close() {
	for _, fd := range []int32{s.inet, s.inet6, s.local} {
		if fd >= 0 {
			closeFD(fd)
		}
	}
	*s = newSpares()
}
