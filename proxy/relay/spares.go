package relay

import "golang.org/x/sys/unix"

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

// ready makes sure that there is a spare of the family, and lends it.
func (s *spares) ready(family int) (int32, unix.Errno) {
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
	s.given(family)
	return fd, errno
}

// given notes that the spare of a family, if there is one, is somebody's now.
func (s *spares) given(family int) { *s.of(family) = -1 }

func (s *spares) close() {
	for _, fd := range []int32{s.inet, s.inet6, s.local} {
		if fd >= 0 {
			closeFD(fd)
		}
	}
	*s = newSpares()
}
