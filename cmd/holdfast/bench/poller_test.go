package bench

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// requestSize is the length of each request. Its first 8 bytes say how many
// bytes the answer has.
const requestSize = 64

// poller is an edge-triggered epoll instance. Server and load are one thread on
// one of these each, so that little of the machine goes to them.
type poller struct {
	fd     int
	events [256]unix.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return &poller{fd: fd}, err
}

func (p *poller) add(fd int) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLET, Fd: int32(fd),
	})
}

// wait calls ready for each descriptor that has become ready, at least one.
func (p *poller) wait(ready func(fd int) error) error {
	n, err := unix.EpollWait(p.fd, p.events[:], -1)
	if err == unix.EINTR {
		return nil
	}
	for _, event := range p.events[:max(n, 0)] {
		if err := ready(int(event.Fd)); err != nil {
			return err
		}
	}
	return err
}

// tcpSocket makes a non-blocking socket.
func tcpSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return -1, err
	}
	return fd, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

// sockaddr is the kernel's form of "tcp://127.0.0.1:12345".
func sockaddr(address string) (*unix.SockaddrInet4, error) {
	at, err := netip.ParseAddrPort(testbed.HostPort(address))
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", address, err)
	}
	return &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}, nil
}
