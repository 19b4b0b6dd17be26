package survival

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// callInfo is struct ptrace_syscall_info of ptrace(2), as far as it is used.
type callInfo struct {
	op        uint8
	_         [3]uint8
	_         uint32
	_, _      uint64
	nr        uint64    // at the entry; at the exit what was returned
	arguments [6]uint64 // at the entry
	_         uint64
}

// The values of op.
const (
	atEntry = 1
	atExit  = 2
)

// returned is the result at the exit; below zero it is an error.
func (c *callInfo) returned() int64 { return int64(c.nr) }

// callName names what a call of the relay or its vault is for, after the last one of
// that thread; counted tells whether this child has set the counter of its descriptor before.
// It is "" for the calls that only the runtime or the parts around them make.
func callName(c *callInfo, last string, counted bool, memory func(at uint64) uint64) string {
	a := c.arguments
	switch c.nr {
	case unix.SYS_ACCEPT4:
		return "accept4"
	case unix.SYS_SOCKET:
		return "socket"
	case unix.SYS_SHUTDOWN:
		return "shutdown"
	case unix.SYS_SPLICE:
		return "splice"
	case unix.SYS_SENDTO:
		return "sendto"
	case unix.SYS_FALLOCATE:
		return "fallocate"
	case unix.SYS_PIPE2:
		return "pipe2"
	case unix.SYS_EPOLL_WAIT, unix.SYS_EPOLL_PWAIT:
		if a[2] == 256 { // the runtime asks for 128
			return "epoll_wait"
		}
	case unix.SYS_GETSOCKNAME:
		return "getsockname"
	case unix.SYS_GETPEERNAME:
		return "getpeername"
	case unix.SYS_CONNECT:
		if uint16(memory(a[1])) == unix.AF_UNSPEC {
			return "connect AF_UNSPEC"
		}
		return "connect"
	case unix.SYS_SENDMSG:
		if a[2]&unix.MSG_DONTWAIT != 0 && memory(memory(a[1]+uint64(unsafe.Offsetof(unix.Msghdr{}.Control)))) > unix.SizeofCmsghdr {
			switch last { // without a descriptor the vault only tries how much a segment holds
			case "accept4", "getsockopt SO_PROTOCOL":
				return "sendmsg of a client"
			case "recvmsg from the vault":
				return "sendmsg of what was there"
			case "close":
				return "sendmsg of a pipe"
			}
			return "sendmsg of a client anew"
		}
	case unix.SYS_RECVMSG:
		if a[2]&unix.MSG_TRUNC != 0 {
			return "recvmsg from the vault"
		}
		return "recvmsg for TCP_CM_INQ"
	case unix.SYS_RECVFROM:
		switch {
		case a[3]&unix.MSG_PEEK != 0:
			return "recvfrom with MSG_PEEK"
		case a[3]&unix.MSG_DONTWAIT != 0:
			return "recvfrom the vault"
		}
		return "recvfrom"
	case unix.SYS_EPOLL_CTL:
		return map[uint64]string{unix.EPOLL_CTL_ADD: "epoll_ctl ADD", unix.EPOLL_CTL_DEL: "epoll_ctl DEL"}[a[1]]
	case unix.SYS_FCNTL:
		if a[1] == unix.F_SETPIPE_SZ {
			return "fcntl F_SETPIPE_SZ"
		}
	case unix.SYS_OPENAT:
		if a[2]&unix.O_RDWR != 0 && a[2]&unix.O_NONBLOCK != 0 {
			return "openat of a pipe"
		}
	case unix.SYS_CLOSE:
		return "close"
	case unix.SYS_IOCTL:
		return map[uint64]string{unix.TIOCOUTQ: "ioctl TIOCOUTQ", unix.TIOCINQ: "ioctl TIOCINQ"}[a[1]]
	case unix.SYS_SETSOCKOPT:
		if a[1] == unix.SOL_SOCKET && a[2] == unix.SO_PEEK_OFF {
			return peekName(uint32(memory(a[3])), counted)
		}
		return optionName("setsockopt", a[1], a[2])
	case unix.SYS_GETSOCKOPT:
		return optionName("getsockopt", a[1], a[2])
	case unix.SYS_MADVISE:
		if a[2] == unix.MADV_REMOVE {
			return "madvise"
		}
	case unix.SYS_MMAP:
		if a[3]&unix.MAP_SHARED != 0 && int32(a[4]) > 2 {
			return "mmap of the table"
		}
	case unix.SYS_WRITE:
		if a[0] > commandFD && a[2] != 8 {
			return "write into a pipe"
		}
	}
	return ""
}

// The calls that set a peek offset.
const (
	peeksVault  = "setsockopt SO_PEEK_OFF of the vault"
	setsCounter = "setsockopt SO_PEEK_OFF as a counter"
	setsItAnew  = "setsockopt SO_PEEK_OFF as a counter anew"
)

// peekName tells them apart: the vault is looked at from its beginning, and counters begin
// far from zero.
func peekName(offset uint32, counted bool) string {
	switch {
	case offset < 1<<30:
		return peeksVault
	case counted:
		return setsItAnew
	}
	return setsCounter
}

// optionName names a socket option; the options of a new socket go by one name.
func optionName(call string, level, option uint64) string {
	switch {
	case level == unix.IPPROTO_TCP && option == unix.TCP_INFO:
		return call + " TCP_INFO"
	case level == unix.IPPROTO_TCP && option == unix.TCP_INQ:
		return call + " TCP_INQ"
	case level == unix.SOL_SOCKET && option == unix.SO_PEEK_OFF:
		return call + " SO_PEEK_OFF"
	case level == unix.SOL_SOCKET && option == unix.SO_ERROR:
		return call + " SO_ERROR"
	case level == unix.SOL_SOCKET && option == unix.SO_PROTOCOL:
		return call + " SO_PROTOCOL"
	}
	return call
}

// boundary is a moment before or after a kind of call, while a child starts or later.
type boundary struct {
	call     string
	after    bool
	restored bool
}

func (b boundary) String() string {
	text := "before "
	if b.after {
		text = "after "
	}
	text += b.call
	if b.restored {
		return text
	}
	return text + ", starting"
}

// step is what is remembered of one stop.
type step struct {
	thread int
	boundary
	fd, result int64
}

func (s step) String() string {
	if s.after {
		return fmt.Sprintf("%d: %s = %d", s.thread, s.call, s.result)
	}
	return fmt.Sprintf("%d: %s(%d, …)", s.thread, s.call, s.fd)
}
