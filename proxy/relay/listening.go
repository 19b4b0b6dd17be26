package relay

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Socket is one listening socket: non-blocking, of a stream type, listening.
// The relay borrows its descriptor and never closes it.
type Socket struct {
	fd    int32
	id    uint64
	label string
	tcp   bool
	mptcp bool // some clients may speak MPTCP

	current atomic.Pointer[use] // how clients are accepted from now on
	mu      sync.Mutex
	former  []*use // those before it that may have connections

	// The options of TCP are set on the listening socket, and accepted sockets
	// have them if their handshake ended later. Clients that were in the queue
	// before have not, or were on their way into it. So many of these are there
	// still, at most; 0 = who is accepted from now on has inherited the options.
	early    atomic.Int64
	prepared time.Time

	tally  tally
	paused atomic.Int32 // loops that do not accept from it for now
}

// NewSocket describes a listening socket; id tells it from all others, also in the next
// process (SO_COOKIE of socket(7)), and label is how logs name it, for example
// "tcp 127.0.0.1:8080". For TCP it sets what accepted sockets inherit: no delay,
// keepalive, urgent data in line, and no fast open, whose data would be consumed
// before the connection counts.
func NewSocket(fd int, id uint64, label string, service *Service) *Socket {
	s := newSocketOf(id, label, service)
	s.fd, s.tcp, s.mptcp = int32(fd), isTCP(int32(fd)), speaksMPTCP(int32(fd))
	s.early.Store(math.MaxInt64) // for good where nothing is inherited (Unix), or not all (MPTCP)
	if s.tcp {
		setTCP(s.fd)
		setPlain(s.fd)
		setInt(s.fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 0)
		s.prepared = time.Now()
	}
	return s
}

// ClosedSocket describes a listening socket that is closed, for connections that were
// accepted from it.
func ClosedSocket(id uint64, label string, service *Service) *Socket {
	return newSocketOf(id, label, service)
}

func newSocketOf(id uint64, label string, service *Service) *Socket {
	s := &Socket{fd: -1, id: id, label: label}
	s.current.Store(newUse(s, service))
	return s
}

// Service is that of the clients who are accepted from now on.
func (s *Socket) Service() *Service { return s.current.Load().service }

// Active is how many connections accepted from the socket are alive.
func (s *Socket) Active() int64 {
	var n int64
	for _, g := range s.Generations() {
		n += g.Active
	}
	return n
}

// Generations tells how many connections of each generation are alive. The last one
// is that which accepts, or did last; of the others those are left out that have none.
func (s *Socket) Generations() []GenerationCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.former = slices.DeleteFunc(s.former, (*use).passed)
	counts := make([]GenerationCount, 0, len(s.former)+1)
	for _, u := range append(s.former[:len(s.former):len(s.former)], s.current.Load()) {
		counts = append(counts, GenerationCount{u.service.Generation, u.active.Load()})
	}
	return counts
}

// Accepted is how many connections were accepted from the socket, by this relay and by
// those before it that had its vault.
func (s *Socket) Accepted() int64 { return s.tally.clients.Load() }

// Paused tells whether some loop leaves clients in its queue for now, because a
// limit of connections or descriptors is reached.
func (s *Socket) Paused() bool { return s.paused.Load() > 0 }

// longestEntry is the longest that the kernel is between the copy of the options and the
// queue, interrupted by whatever it may be.
const longestEntry = time.Second

// acceptedEarly notes that the first of the queue was accepted, after there were so many
// early clients at most. Who comes into the queue from now on is none.
func (s *Socket) acceptedEarly(of int64) {
	if time.Since(s.prepared) <= longestEntry {
		return
	}
	left := min(of-1, int64(listenBacklog(s.fd)))
	for {
		before := s.early.Load()
		if before <= left || s.early.CompareAndSwap(before, left) { // other loops may know better
			return
		}
	}
}

// speaksMPTCP tells whether a socket is one of Multipath TCP, whose counters are not
// those of a stream.
func speaksMPTCP(fd int32) bool {
	protocol, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL)
	return err == nil && protocol == unix.IPPROTO_MPTCP
}

func isTCP(fd int32) bool {
	domain, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
	return err == nil && (domain == unix.AF_INET || domain == unix.AF_INET6)
}
