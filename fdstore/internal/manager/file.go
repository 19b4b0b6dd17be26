package manager

import (
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// file is a descriptor with what can be known of its file beforehand: whoever has
// another inode is another file, and the kernel need not be asked for each pair.
type file struct {
	fd       *sock.FD
	dev, ino uint64
	kind     uint32 // of the inode, S_IFMT
}

func fileOf(fd *sock.FD) file {
	var st unix.Stat_t
	if err := unix.Fstat(fd.Raw(), &st); err != nil {
		return file{fd: fd}
	}
	return file{fd: fd, dev: st.Dev, ino: st.Ino, kind: st.Mode & unix.S_IFMT}
}

// same is same_fd of systemd: it tells whether two descriptors share one open file
// description, as after dup(2).
func (f file) same(other file) bool {
	if f.dev != other.dev || f.ino != other.ino || f.kind != other.kind {
		return false
	}
	a, b := f.fd.Raw(), other.fd.Raw()
	if same, err := unix.FcntlInt(uintptr(a), unix.F_DUPFD_QUERY, b); err == nil {
		return same == 1
	}
	// Before Linux 6.10.
	const kcmpFile = 0 // KCMP_FILE
	self := uintptr(unix.Getpid())
	differ, _, errno := unix.Syscall6(unix.SYS_KCMP, self, self, kcmpFile, uintptr(a), uintptr(b), 0)
	if errno == 0 {
		return differ == 0
	}
	return f.seemsSame(other)
}

// seemsSame is for kernels without either, and for containers that may not use them.
// Eventfds and the like all have one inode, and devices may be others each time they
// are opened: these are never the same, as to keep one twice does little harm.
func (f file) seemsSame(other file) bool {
	switch f.kind {
	case unix.S_IFSOCK:
		return true
	case unix.S_IFREG, unix.S_IFDIR, unix.S_IFIFO: // the ends of a pipe have one inode
		a, errA := unix.FcntlInt(uintptr(f.fd.Raw()), unix.F_GETFL, 0)
		b, errB := unix.FcntlInt(uintptr(other.fd.Raw()), unix.F_GETFL, 0)
		return errA == nil && errB == nil && a == b
	}
	return false
}
