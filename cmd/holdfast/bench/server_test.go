package bench

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// server answers each request with as many bytes as it asks for.
type server struct {
	*poller
	listener int
	conns    map[int]*served
	block    []byte
}

type served struct {
	request [requestSize]byte
	got     int    // bytes of the request
	owed    uint64 // bytes of the answer
}

func listenAt(address string) (*server, error) {
	at, err := sockaddr(address)
	if err != nil {
		return nil, err
	}
	s := &server{conns: map[int]*served{}, block: make([]byte, 256<<10)}
	if s.poller, err = newPoller(); err != nil {
		return nil, err
	}
	if s.listener, err = tcpSocket(); err != nil {
		return nil, err
	}
	if err := unix.Bind(s.listener, at); err != nil {
		return nil, err
	}
	if err := unix.Listen(s.listener, unix.SOMAXCONN); err != nil {
		return nil, err
	}
	return s, s.add(s.listener)
}

// run serves until something fails that should not.
func (s *server) run() error {
	for {
		if err := s.wait(s.ready); err != nil {
			return err
		}
	}
}

func (s *server) ready(fd int) error {
	if fd == s.listener {
		return s.accept()
	}
	c := s.conns[fd]
	if c != nil && !s.progress(fd, c) {
		delete(s.conns, fd)
		return unix.Close(fd)
	}
	return nil
}

func (s *server) accept() error {
	for {
		fd, _, err := unix.Accept4(s.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err == unix.EAGAIN {
			return nil
		}
		if err != nil {
			return err
		}
		s.conns[fd] = &served{}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return err
		}
		if err := s.add(fd); err != nil {
			return err
		}
	}
}

// progress moves what can be moved and says whether the connection lives.
func (s *server) progress(fd int, c *served) bool {
	for {
		for c.owed > 0 {
			n, err := unix.Write(fd, s.block[:min(c.owed, uint64(len(s.block)))])
			if err != nil {
				return err == unix.EAGAIN
			}
			c.owed -= uint64(n)
		}
		n, err := unix.Read(fd, c.request[c.got:])
		if err != nil || n == 0 {
			return err == unix.EAGAIN
		}
		if c.got += n; c.got == requestSize {
			c.owed, c.got = binary.NativeEndian.Uint64(c.request[:]), 0
		}
	}
}
