package relay

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/upstream"
)

// Service is what a listener of one generation does with the connections it
// accepts. It is never changed; a connection keeps the one that accepted it.
type Service struct {
	Listener    string // its name
	Generation  uint64
	Pool        *upstream.Pool
	Limit       *Limit
	Trusted     []netip.Prefix // clients in these must send a PROXY header first; empty = nobody
	IdleTimeout time.Duration  // without a byte either way for this long a connection is ended; 0 = never

	ConnectTimeout time.Duration // of one attempt
	ConnectRetry   time.Duration // how long a client waits for a server; 0 = one round over all
	SendProxy      int           // version of the PROXY header sent to the server; 0 = none
}

// Limit counts the connections of one listener over all its sockets and
// generations, and holds further ones back in the kernel's queue.
type Limit struct {
	max    atomic.Int64 // 0 = no limit
	active atomic.Int64
	paused atomic.Bool // a loop has stopped accepting because of it
}

// NewLimit returns a limit of most connections at once; 0 means no limit.
func NewLimit(most int) *Limit {
	l := &Limit{}
	l.max.Store(int64(most))
	return l
}

// Active is how many connections count now.
func (l *Limit) Active() int64 { return l.active.Load() }

// enter counts one connection if there is room for it.
func (l *Limit) enter() bool {
	most := l.max.Load()
	if n := l.active.Add(1); most > 0 && n > most {
		l.active.Add(-1)
		return false
	}
	return true
}

// pause notes that a loop will stop accepting. It returns false when there is
// room again: a connection may have left since enter refused.
func (l *Limit) pause() bool {
	l.paused.Store(true)
	return l.active.Load() >= l.max.Load()
}

// leave counts a connection out, and tells whether loops wait for that.
func (l *Limit) leave() (wake bool) {
	l.active.Add(-1)
	return l.paused.Load() && l.paused.Swap(false)
}

// Socket is one listening socket: non-blocking, of a stream type, listening.
// The relay borrows its descriptor and never closes it.
type Socket struct {
	fd      int32
	label   string
	service atomic.Pointer[Service]

	accepted atomic.Int64
	active   atomic.Int64
	paused   atomic.Int32 // loops that do not accept from it for now
}

// NewSocket describes a listening socket; label is how logs name it, for example
// "tcp 127.0.0.1:8080". For TCP it sets what accepted sockets inherit: no delay,
// keepalive, and urgent data in line.
func NewSocket(fd int, label string, service *Service) *Socket {
	s := &Socket{fd: int32(fd), label: label}
	s.service.Store(service)
	if isTCP(s.fd) {
		setTCP(s.fd)
	}
	return s
}

// SetService changes what happens with connections from now on.
func (s *Socket) SetService(service *Service) { s.service.Store(service) }

// Label is the name given to NewSocket.
func (s *Socket) Label() string { return s.label }

// Active is how many connections accepted from the socket are alive.
func (s *Socket) Active() int64 { return s.active.Load() }

// Accepted is how many connections were accepted from the socket.
func (s *Socket) Accepted() int64 { return s.accepted.Load() }

// Paused tells whether some loop leaves clients in its queue for now, because a
// limit of connections or descriptors is reached.
func (s *Socket) Paused() bool { return s.paused.Load() > 0 }
