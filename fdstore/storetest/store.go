package storetest

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// stored is ServiceFDStore.
type stored struct {
	name    string
	fd      *sock.FD
	watched bool
}

// push takes over all fds. It ends with the first that is not kept, but for one that
// the store has.
func (m *Manager) push(name string, fds []*sock.FD, poll bool) {
	for i, fd := range fds {
		if len(m.kept) >= m.places {
			m.dropped = append(m.dropped, fds[i:]...)
			return
		}
		if slices.ContainsFunc(m.kept, func(s stored) bool { return sameFile(s.fd, fd) }) {
			m.dropped = append(m.dropped, fd)
			continue
		}
		s := stored{name: name, fd: fd}
		if poll {
			err := m.watch(fd, 0) // HUP and ERR come unasked
			if err != nil && !errors.Is(err, unix.EPERM) {
				m.dropped = append(m.dropped, fds[i:]...)
				return
			}
			s.watched = err == nil
		}
		m.kept = slices.Insert(m.kept, 0, s)
	}
}

func (m *Manager) remove(which func(stored) bool) {
	m.kept = slices.DeleteFunc(m.kept, func(s stored) bool {
		if !which(s) {
			return false
		}
		if s.watched {
			_ = unix.EpollCtl(m.epoll.Raw(), unix.EPOLL_CTL_DEL, s.fd.Raw(), nil)
		}
		_ = s.fd.Close()
		return true
	})
}

// hungUp is on_fd_store_io.
func (m *Manager) hungUp(raw int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(func(s stored) bool { return s.fd.Raw() == raw })
}

// sameFile is same_fd by its first means, kcmp(2).
func sameFile(a, b *sock.FD) bool {
	const kcmpFile = 0 // KCMP_FILE
	self := uintptr(unix.Getpid())
	differ, _, errno := unix.Syscall6(unix.SYS_KCMP, self, self, kcmpFile, uintptr(a.Raw()), uintptr(b.Raw()), 0)
	return errno == 0 && differ == 0
}
