package relay

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls here never block: their descriptors are non-blocking. They go
// without the scheduler's bookkeeping (RawSyscall), which would cost as much as
// the shorter ones themselves.

func recv(fd int32, p []byte, flags int) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), uintptr(flags), 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// signals is how often a call is made again that says EAGAIN although something is there:
// so does one of recv at urgent data while a signal is pending (tcp_recvmsg_locked,
// net/ipv4/tcp.c), and the runtime signals its threads.
const signals = 100

// recvUrgent is recv on a TCP socket where urgent data may be.
func recvUrgent(fd int32, p []byte) (n int, errno unix.Errno) {
	for range signals {
		if n, errno = recv(fd, p, 0); errno != unix.EAGAIN || !hasUnread(fd) {
			break
		}
	}
	return n, errno
}

func send(fd int32, p []byte) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

func splice(from, to int32, n int) (int, unix.Errno) {
	for {
		r, _, errno := unix.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(n), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if errno != unix.EINTR {
			return int(r), errno
		}
	}
}

// accept takes one connection of a listening socket, non-blocking and
// close-on-exec. from receives the peer's address.
func accept(fd int32, from *unix.RawSockaddrAny) (int32, unix.Errno) {
	size := uint32(unix.SizeofSockaddrAny)
	from.Addr.Family = unix.AF_UNSPEC
	n, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(from)), uintptr(unsafe.Pointer(&size)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	return int32(n), errno
}

func connect(fd int32, sockaddr []byte) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&sockaddr[0])), uintptr(len(sockaddr)))
	return errno
}

// disconnect ends a TCP connection at once whoever else holds a copy of its
// descriptor: its peer gets a RST, what was queued either way is dropped, and
// the socket can connect anew.
func disconnect(fd int32) {
	var unspec [unix.SizeofSockaddrInet4]byte // AF_UNSPEC is 0
	_ = connect(fd, unspec[:])
}

// sever ends a connection at once both ways, by reset. A Unix socket has none: its peer
// sees the end of the stream, or a reset if it had sent what nobody read.
func sever(fd int32, tcp bool) {
	if tcp {
		disconnect(fd)
	} else {
		shutdown(fd, unix.SHUT_RDWR)
	}
}

func shutdown(fd int32, how int) {
	_, _, _ = unix.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), uintptr(how), 0)
}

func epollCtl(epfd, op int, fd int32, ev *unix.EpollEvent) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(epfd), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(ev)), 0, 0)
	return errno
}

func closeFD(fd int32) {
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
}

// socketError takes the pending error of a socket. Only for sockets that are
// still connecting: on an established one it would hide a reset.
func socketError(fd int32) unix.Errno {
	v, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return unix.EIO
	}
	return unix.Errno(v)
}

// unacknowledged is how much of what was sent the peer of a TCP socket has not
// acknowledged, in bytes, a FIN counting one, or how much memory is taken by what the
// peer of a Unix socket has not read. The call fails on listening sockets only.
func unacknowledged(fd int32) int {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

// hasUnread tells whether bytes lie in a socket's receive queue. The call fails on
// listening sockets only.
func hasUnread(fd int32) bool {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	return err == nil && n > 0
}

// finReceived tells whether the peer of a TCP socket has ended its stream by a FIN.
// The kernel adds one to the hint of TCP_CM_INQ, and not to SIOCINQ, when and only
// when one came (tcp_inq_hint, net/ipv4/tcp.c). The socket's state and what poll
// says cannot tell: a reset shows there too.
func finReceived(fd int32) bool {
	hint := inqHint(fd)
	if hint == 0 {
		return false
	}
	inq, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	return err == nil && hint-inq == 1
}

// inqHint is what TCP_CM_INQ says of a TCP socket's receive queue: its bytes, and one for
// a FIN. It is 0 where a look at the queue gives nothing.
func inqHint(fd int32) int {
	setInt(fd, unix.IPPROTO_TCP, unix.TCP_INQ, 1)
	defer setInt(fd, unix.IPPROTO_TCP, unix.TCP_INQ, 0)
	var b [1]byte
	var oob [64]byte
	var n int
	var err error
	for range signals {
		if _, n, _, _, err = unix.Recvmsg(int(fd), b[:], oob[:], unix.MSG_PEEK|unix.MSG_DONTWAIT); err != unix.EAGAIN || !hasUnread(fd) {
			break
		}
	}
	if err != nil {
		return 0
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if m.Header.Level == unix.IPPROTO_TCP && m.Header.Type == unix.TCP_CM_INQ && len(m.Data) >= 4 {
			return int(binary.NativeEndian.Uint32(m.Data))
		}
	}
	return 0
}

// listenBacklog is how many clients wait in the queue of a listening socket; as
// many as any queue may hold where the kernel does not tell.
func listenBacklog(fd int32) int {
	info, err := tcpInfo(fd)
	if err != nil {
		return 4096 // net.core.somaxconn
	}
	return int(info.Unacked)
}

// tcpClosed tells whether a TCP socket's connection is over (TCP_CLOSE).
func tcpClosed(fd int32) bool {
	const tcpClose = 7 // include/net/tcp_states.h
	info, err := tcpInfo(fd)
	return err == nil && info.State == tcpClose
}

// anyoneWaits tells whether a listening socket has a client in its queue. One that
// somebody has shut down never has.
func anyoneWaits(fd int32) bool {
	polled := []unix.PollFd{{Fd: fd, Events: unix.POLLIN}}
	_, err := unix.Poll(polled, 0)
	return err != nil || polled[0].Revents&unix.POLLIN != 0 && polled[0].Revents&unix.POLLHUP == 0
}

// addrPort reads an IP socket address; anything else gives the zero AddrPort.
// An IPv4 client of a dual-stack socket is told by its IPv4 address.
func addrPort(sa *unix.RawSockaddrAny) netip.AddrPort {
	switch sa.Addr.Family {
	case unix.AF_INET:
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), networkOrder(in.Port))
	case unix.AF_INET6:
		in := (*unix.RawSockaddrInet6)(unsafe.Pointer(sa))
		addr := netip.AddrFrom16(in.Addr).Unmap()
		if in.Scope_id != 0 && addr.Is6() {
			addr = addr.WithZone(strconv.FormatUint(uint64(in.Scope_id), 10))
		}
		return netip.AddrPortFrom(addr, networkOrder(in.Port))
	}
	return netip.AddrPort{}
}

func networkOrder(port uint16) uint16 {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], port)
	return binary.BigEndian.Uint16(b[:])
}

// localAddr is the address that a client connected to.
func localAddr(fd int32) netip.AddrPort {
	sa, _ := name(fd, unix.SYS_GETSOCKNAME)
	return addrPort(&sa)
}

// peerSockaddr is the address of a socket's peer, in the form of connect(2).
func peerSockaddr(fd int32) []byte {
	sa, size := name(fd, unix.SYS_GETPEERNAME)
	return bytes.Clone((*[unix.SizeofSockaddrAny]byte)(unsafe.Pointer(&sa))[:size])
}

// name asks for one of the two addresses of a connected socket; size is 0 if it has none.
func name(fd int32, which uintptr) (sa unix.RawSockaddrAny, size uint32) {
	size = unix.SizeofSockaddrAny
	_, _, errno := unix.RawSyscall(which, uintptr(fd), uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return unix.RawSockaddrAny{}, 0
	}
	return sa, min(size, unix.SizeofSockaddrAny)
}
