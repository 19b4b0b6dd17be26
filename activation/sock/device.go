package sock

import (
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// device is the interface to which an IP socket is bound. A link-local address is
// always bound to the one in its zone: the address says it then.
func device(fd int, a Addr) (name string, retired bool) {
	index, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX)
	if err != nil || index == 0 { // an error: Linux before 5.1, which cannot tell
		return "", false
	}
	if index == nowhere {
		return "", true
	}
	// Asked of the socket, as an index means something only in its name space.
	name, err = unix.GetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE)
	if err != nil { // the interface is gone
		name = strconv.Itoa(index)
	}
	if name == a.AddrPort.Addr().Zone() {
		return "", false
	}
	return name, false
}

func inOtherNetNS(fd int) bool {
	theirs, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	return err == nil && ownNetNS() != 0 && theirs != ownNetNS()
}

// ownNetNS is the number of this process's network name space, which no other one
// of this boot has; 0 = the kernel does not tell.
var ownNetNS = sync.OnceValue(func() uint64 {
	fd, err := socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0
	}
	defer fd.Close()
	cookie, err := unix.GetsockoptUint64(fd.Raw(), unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0
	}
	return cookie
})
