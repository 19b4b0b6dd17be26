package bench

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// job is a fixed amount of work for the load generator.
type job struct {
	Address     string // of the proxy
	Connections int    // in all
	AtOnce      int    // connections that are busy at a time
	Exchanges   int    // requests and answers on each connection
	Answer      uint64 // bytes of each answer
	Hold        bool   // leave the connections open when they are done
}

// load works on one job.
type load struct {
	*poller
	job
	at      *unix.SockaddrInet4
	request [requestSize]byte
	block   []byte
	conns   map[int]*loaded
	opened  int
	done    int
}

type loaded struct {
	exchanges int    // still to make
	awaited   uint64 // bytes of the answer still to come; 0 = the request is to be sent
}

func perform(j job) error {
	l := &load{job: j, block: make([]byte, 1<<20), conns: map[int]*loaded{}}
	binary.NativeEndian.PutUint64(l.request[:], j.Answer)
	var err error
	if l.at, err = sockaddr(j.Address); err != nil {
		return err
	}
	if l.poller, err = newPoller(); err != nil {
		return err
	}
	defer func() { _ = unix.Close(l.fd) }()
	for l.opened < min(l.AtOnce, l.Connections) {
		if err := l.open(); err != nil {
			return err
		}
	}
	for l.done < l.Connections {
		if err := l.wait(l.ready); err != nil {
			return fmt.Errorf("after %d of %d connections: %w", l.done, l.Connections, err)
		}
	}
	return nil
}

func (l *load) open() error {
	fd, err := tcpSocket()
	if err != nil {
		return err
	}
	l.opened++
	l.conns[fd] = &loaded{exchanges: l.Exchanges}
	if err := unix.Connect(fd, l.at); err != nil && err != unix.EINPROGRESS {
		return err
	}
	return l.add(fd)
}

func (l *load) ready(fd int) error {
	c := l.conns[fd]
	if c == nil {
		return nil // held
	}
	for c.exchanges > 0 {
		if c.awaited == 0 {
			if n, err := unix.Write(fd, l.request[:]); err != nil || n != requestSize {
				return fmt.Errorf("sent %d bytes of a request: %w", n, err)
			}
			c.awaited = l.Answer
		}
		// MSG_TRUNC lets the kernel drop the bytes instead of copying them, tcp(7).
		n, _, err := unix.Recvfrom(fd, l.block, unix.MSG_TRUNC)
		if err == unix.EAGAIN {
			return nil
		}
		if err != nil || n == 0 {
			return fmt.Errorf("the answer ended %d bytes too early: %w", c.awaited, err)
		}
		if c.awaited -= uint64(n); c.awaited == 0 {
			c.exchanges--
		}
	}
	return l.finish(fd)
}

func (l *load) finish(fd int) error {
	l.done++
	delete(l.conns, fd)
	if !l.Hold {
		if err := unix.Close(fd); err != nil {
			return err
		}
	}
	if l.opened < l.Connections {
		return l.open()
	}
	return nil
}
