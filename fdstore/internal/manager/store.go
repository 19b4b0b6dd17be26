package manager

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Options of a Store.
type Options struct {
	// Max is how many descriptors it takes, FileDescriptorStoreMax=. 0 = none.
	Max int

	// NameBytes is how many bytes the names take together, with one for each that
	// parts it from the next; 0 = any number.
	NameBytes int

	// Epoll is the instance that watches what is kept. It is lent, and the data of an
	// event is the number of the descriptor.
	Epoll *sock.FD

	// Dropped takes over what the store had no use for; nil = it is closed at once.
	Dropped func([]*sock.FD)
}

// Store keeps the descriptors of one service.
type Store struct {
	options   Options
	kept      []stored // what came last is first, as in LISTEN_FDS
	nameBytes int
}

// stored is ServiceFDStore of systemd.
type stored struct {
	name    string
	fd      *sock.FD
	file    file
	watched bool
}

// Kept is a descriptor that the store has, lent.
type Kept struct {
	Name string
	FD   int
}

// NewStore makes an empty store.
func NewStore(o Options) *Store {
	if o.Dropped == nil {
		o.Dropped = closeAll
	}
	return &Store{options: o}
}

// Apply does what a message says about descriptors, and takes its FDs over. It tells
// how many it was to keep and did not, because there was no room.
func (s *Store) Apply(m Message) (refused int) {
	name, named := m.fdName()
	switch {
	case m.IsBarrier():
	case m.Has("FDSTOREREMOVE=1"):
		if named {
			s.remove(func(k stored) bool { return k.name == name })
		}
	case m.Has("FDSTORE=1"):
		if !named {
			name = "stored"
		}
		return s.push(name, m.FDs, !m.Has("FDPOLL=0"))
	}
	m.Close()
	return 0
}

// push ends with the first descriptor that there is no room for.
func (s *Store) push(name string, fds []*sock.FD, poll bool) (refused int) {
	for i, fd := range fds {
		file := fileOf(fd)
		if s.full(name) {
			s.options.Dropped(fds[i:])
			return len(fds) - i
		}
		if slices.ContainsFunc(s.kept, func(k stored) bool { return file.same(k.file) }) {
			s.options.Dropped(fds[i : i+1])
			continue
		}
		watched, err := s.watch(fd, poll)
		if err != nil {
			s.options.Dropped(fds[i:])
			return len(fds) - i
		}
		s.kept = slices.Insert(s.kept, 0, stored{name, fd, file, watched})
		s.nameBytes += len(name) + 1
	}
	return 0
}

func (s *Store) full(name string) bool {
	most := s.options.NameBytes
	return len(s.kept) >= s.options.Max || most > 0 && s.nameBytes+len(name)+1 > most
}

// watch lets the epoll instance tell when there is nothing more to expect of a
// descriptor: HUP and ERR come unasked. Not everything can be watched.
func (s *Store) watch(fd *sock.FD, poll bool) (watched bool, err error) {
	if !poll {
		return false, nil
	}
	err = unix.EpollCtl(s.options.Epoll.Raw(), unix.EPOLL_CTL_ADD, fd.Raw(), &unix.EpollEvent{Fd: int32(fd.Raw())})
	if errors.Is(err, unix.EPERM) {
		return false, nil
	}
	return err == nil, err
}

// HungUp removes a descriptor of which epoll has told, as on_fd_store_io of systemd.
func (s *Store) HungUp(fd int) {
	s.remove(func(k stored) bool { return k.fd.Raw() == fd })
}

func (s *Store) remove(which func(stored) bool) {
	s.kept = slices.DeleteFunc(s.kept, func(k stored) bool {
		if !which(k) {
			return false
		}
		if k.watched {
			// A copy that is open elsewhere would have it reported for ever.
			_ = unix.EpollCtl(s.options.Epoll.Raw(), unix.EPOLL_CTL_DEL, k.fd.Raw(), nil)
		}
		s.nameBytes -= len(k.name) + 1
		_ = k.fd.Close()
		return true
	})
}

// Kept is everything in the store, in the order of LISTEN_FDS.
func (s *Store) Kept() []Kept {
	list := make([]Kept, len(s.kept))
	for i, k := range s.kept {
		list[i] = Kept{Name: k.name, FD: k.fd.Raw()}
	}
	return list
}

// Max is how many descriptors the store takes.
func (s *Store) Max() int { return s.options.Max }

// Resize changes Max, as daemon-reload does. What is kept stays.
func (s *Store) Resize(most int) { s.options.Max = most }

// Close closes what is kept.
func (s *Store) Close() {
	s.remove(func(stored) bool { return true })
}
