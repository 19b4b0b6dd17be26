package relay

import (
	"math"

	"golang.org/x/sys/unix"
)

// Edge-triggered for connections, so that nothing is re-armed while they wait.
// EPOLLPRI tells of urgent data, where a read stops short; EPOLLRDHUP of a FIN.
const connEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLPRI | unix.EPOLLET&math.MaxUint32

// Level-triggered for listening sockets; one waiting loop is woken for a client,
// not all of them.
const listenEvents = unix.EPOLLIN | unix.EPOLLEXCLUSIVE

// What an epoll event points to stands in its data: a pair's slot and side in
// the first half and the low half of its serial in the second, or below zero
// the wake-up descriptor or a listening socket.
const wakeTag int32 = -1

func connTag(p *pair, side int) (int32, int32) {
	return int32(p.slot<<1) | int32(side), int32(uint32(p.serial))
}

func watchTag(index int) int32   { return -2 - int32(index) }
func watchIndex(tag int32) int32 { return -2 - tag }

// register registers a descriptor in epoll.
func (l *loop) register(fd int32, events uint32, tag, serial int32) unix.Errno {
	ev := unix.EpollEvent{Events: events, Fd: tag, Pad: serial}
	return epollCtl(l.epfd, unix.EPOLL_CTL_ADD, fd, &ev)
}

// registerSide registers one side of a pair.
func (l *loop) registerSide(p *pair, at int) unix.Errno {
	s := &p.side[at]
	if s.registered {
		return 0
	}
	tag, serial := connTag(p, at)
	errno := l.register(s.fd, connEvents, tag, serial)
	s.registered = errno == 0
	return errno
}

// closeSide takes a descriptor out of epoll and closes it.
func (l *loop) closeSide(s *side) {
	if s.fd < 0 {
		return
	}
	if s.registered {
		_ = epollCtl(l.epfd, unix.EPOLL_CTL_DEL, s.fd, nil)
	}
	closeFD(s.fd)
	s.fd, s.registered = -1, false
}
