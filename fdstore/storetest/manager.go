package storetest

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
)

// Manager is a service manager with one service and its store.
type Manager struct {
	path   string
	notify *sock.FD // where messages arrive
	stop   *sock.FD // an eventfd
	epoll  *sock.FD
	ended  chan struct{}

	mu      sync.Mutex
	places  int
	kept    []stored // what came last is first
	dropped []*sock.FD
}

// Start starts a manager that ends with the test. Its store has that many places.
func Start(t testing.TB, places int) *Manager {
	t.Helper()
	m, err := New(filepath.Join(t.TempDir(), "notify"), places)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

// New starts a manager with its socket at a path, or at "@name" in the abstract name
// space. Close ends it.
func New(path string, places int) (*Manager, error) {
	m := &Manager{path: path, places: places, ended: make(chan struct{})}
	if err := m.open(); err != nil {
		m.closeAll()
		return nil, fmt.Errorf("start a manager at %s: %w", path, err)
	}
	go m.run()
	return m, nil
}

func (m *Manager) open() (err error) {
	if m.notify, err = owned(unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)); err != nil {
		return err
	}
	if m.stop, err = owned(unix.Eventfd(0, unix.EFD_CLOEXEC)); err != nil {
		return err
	}
	if m.epoll, err = owned(unix.EpollCreate1(unix.EPOLL_CLOEXEC)); err != nil {
		return err
	}
	return errors.Join(
		unix.Bind(m.notify.Raw(), &unix.SockaddrUnix{Name: m.path}),
		unix.SetsockoptInt(m.notify.Raw(), unix.SOL_SOCKET, unix.SO_PASSCRED, 1),
		m.watch(m.notify, unix.EPOLLIN),
		m.watch(m.stop, unix.EPOLLIN),
	)
}

// Close ends the manager and closes what it keeps.
func (m *Manager) Close() {
	if _, err := unix.Write(m.stop.Raw(), []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		panic(fmt.Sprint("storetest: end the manager: ", err))
	}
	<-m.ended
	m.closeAll()
}

// Socket is what the service gets as NOTIFY_SOCKET.
func (m *Manager) Socket() string {
	return m.path
}

// Notifier is how the service talks to the manager.
func (m *Manager) Notifier() *Notifier {
	return &Notifier{Socket: m.path}
}

// Resize changes FileDescriptorStoreMax=, as daemon-reload does: what is kept stays.
func (m *Manager) Resize(places int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.places = places
}

// Names are those of the kept descriptors, in the order of LISTEN_FDNAMES.
func (m *Manager) Names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := make([]string, len(m.kept))
	for i, s := range m.kept {
		names[i] = s.name
	}
	return names
}

// Pass gives a copy of each kept descriptor, as the next process gets them. It
// panics when it can open no more.
func (m *Manager) Pass() []fdstore.Held {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := make([]fdstore.Held, len(m.kept))
	for i, s := range m.kept {
		raw, err := unix.FcntlInt(uintptr(s.fd.Raw()), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			panic(fmt.Sprint("storetest: pass descriptors: ", err))
		}
		held[i] = fdstore.Held{Name: s.name, FD: sock.NewFD(raw)}
	}
	return held
}

// run ends by close.
func (m *Manager) run() {
	defer close(m.ended)
	for {
		events := make([]unix.EpollEvent, 1)
		n, err := unix.EpollWait(m.epoll.Raw(), events, -1)
		switch {
		case err == unix.EINTR || err == nil && n == 0:
		case err != nil:
			panic(fmt.Sprint("storetest: wait for messages: ", err))
		case int(events[0].Fd) == m.stop.Raw():
			return
		case int(events[0].Fd) == m.notify.Raw():
			m.receive()
		default:
			m.hungUp(int(events[0].Fd))
		}
	}
}

func (m *Manager) watch(fd *sock.FD, events uint32) error {
	return unix.EpollCtl(m.epoll.Raw(), unix.EPOLL_CTL_ADD, fd.Raw(), &unix.EpollEvent{Events: events, Fd: int32(fd.Raw())})
}

func (m *Manager) closeAll() {
	closeAll(m.dropped)
	for _, s := range m.kept {
		_ = s.fd.Close()
	}
	closeAll([]*sock.FD{m.notify, m.stop, m.epoll})
}

func owned(raw int, err error) (*sock.FD, error) {
	if err != nil {
		return nil, err
	}
	return sock.NewFD(raw), nil
}
