package fdstore

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// object is what a descriptor leads to, so that two of the same can be told without
// having both. The zero object means that nothing is known: eventfds, epoll
// instances and the like share one inode, and devices may be others each time they
// are opened.
//
// It is coarser than the kernel: two who opened the same file in the same mode are
// one object. A manager without kcmp(2) and F_DUPFD_QUERY sees it like that too.
type object struct {
	cookie   uint64 // SO_COOKIE of a socket, never 0
	dev, ino uint64 // of anything else
	mode     int    // O_ACCMODE: the ends of a pipe have one inode
}

func identify(fd int) (object, error) {
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err == nil {
		return object{cookie: cookie}, nil
	}
	if !errors.Is(err, unix.ENOTSOCK) {
		return object{}, fmt.Errorf("SO_COOKIE of descriptor %d: %w", fd, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return object{}, fmt.Errorf("stat of descriptor %d: %w", fd, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR, unix.S_IFIFO:
	default:
		return object{}, nil
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return object{}, fmt.Errorf("flags of descriptor %d: %w", fd, err)
	}
	return object{dev: st.Dev, ino: st.Ino, mode: flags & unix.O_ACCMODE}, nil
}

// sameFile tells whether two descriptors share one open file description, as after
// dup(2). It is false where the kernel does not say.
func sameFile(a, b int) bool {
	same, err := unix.FcntlInt(uintptr(a), unix.F_DUPFD_QUERY, b)
	if err == nil {
		return same == 1
	}
	// Before Linux 6.10.
	const kcmpFile = 0 // KCMP_FILE
	self := uintptr(unix.Getpid())
	differ, _, errno := unix.Syscall6(unix.SYS_KCMP, self, self, kcmpFile, uintptr(a), uintptr(b), 0)
	return errno == 0 && differ == 0
}
