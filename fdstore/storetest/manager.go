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
	"github.com/holdfast-proxy/holdfast/fdstore/internal/manager"
)

// Manager is a service manager with one service and its store.
type Manager struct {
	path   string
	notify *manager.Socket
	stop   *sock.FD // an eventfd
	epoll  *sock.FD
	ended  chan struct{}

	mu      sync.Mutex
	store   *manager.Store
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
	m := &Manager{path: path, ended: make(chan struct{})}
	if err := m.open(places); err != nil {
		m.closeAll()
		return nil, fmt.Errorf("start a manager at %s: %w", path, err)
	}
	go m.run()
	return m, nil
}

func (m *Manager) open(places int) (err error) {
	if m.notify, err = manager.Listen(m.path); err != nil {
		return err
	}
	if m.stop, err = owned(unix.Eventfd(0, unix.EFD_CLOEXEC)); err != nil {
		return err
	}
	if m.epoll, err = owned(unix.EpollCreate1(unix.EPOLL_CLOEXEC)); err != nil {
		return err
	}
	m.store = manager.NewStore(manager.Options{
		Max: places, Epoll: m.epoll,
		Dropped: func(fds []*sock.FD) { m.dropped = append(m.dropped, fds...) },
	})
	return errors.Join(m.await(m.notify.Raw()), m.await(m.stop.Raw()))
}

func (m *Manager) await(fd int) error {
	return unix.EpollCtl(m.epoll.Raw(), unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
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
	m.store.Resize(places)
}

// Names are those of the kept descriptors, in the order of LISTEN_FDNAMES.
func (m *Manager) Names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.store.Kept()
	names := make([]string, len(kept))
	for i, k := range kept {
		names[i] = k.Name
	}
	return names
}

// Pass gives a copy of each kept descriptor, as the next process gets them. It
// panics when it can open no more.
func (m *Manager) Pass() []fdstore.Held {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.store.Kept()
	held := make([]fdstore.Held, len(kept))
	for i, k := range kept {
		raw, err := unix.FcntlInt(uintptr(k.FD), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			panic(fmt.Sprint("storetest: pass descriptors: ", err))
		}
		held[i] = fdstore.Held{Name: k.Name, FD: sock.NewFD(raw)}
	}
	return held
}

// run ends by Close.
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
		default:
			m.turn(int(events[0].Fd))
		}
	}
}

func (m *Manager) turn(fd int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if fd != m.notify.Raw() {
		m.store.HungUp(fd)
		return
	}
	if message, err := m.notify.Receive(); err == nil {
		m.store.Apply(message)
	}
}

func (m *Manager) closeAll() {
	for _, fd := range append(m.dropped, m.stop, m.epoll) {
		if fd != nil {
			_ = fd.Close()
		}
	}
	if m.store != nil {
		m.store.Close()
	}
	if m.notify != nil {
		_ = m.notify.Close()
	}
}

func owned(raw int, err error) (*sock.FD, error) {
	if err != nil {
		return nil, err
	}
	return sock.NewFD(raw), nil
}
