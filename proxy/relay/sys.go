package relay

import (
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

func setInt(fd int32, level, name, value int) unix.Errno {
	v := int32(value)
	_, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name), uintptr(unsafe.Pointer(&v)), unsafe.Sizeof(v), 0)
	return errno
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

// unsent is how many bytes the peer of a TCP socket has not yet acknowledged.
func unsent(fd int32) int {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

// unread is how many bytes lie in a socket's receive queue.
func unread(fd int32) int {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
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
	var sa unix.RawSockaddrAny
	size := uint32(unix.SizeofSockaddrAny)
	_, _, errno := unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return netip.AddrPort{}
	}
	return addrPort(&sa)
}
