package relay

import "sync/atomic"

// use is a listening socket in the service of one generation. A connection keeps
// the use by which it was accepted, whatever the socket serves later.
type use struct {
	socket  *Socket
	service *Service
	active  atomic.Int64
	loops   atomic.Int32 // that may accept by it, although it is no longer current
}

// over tells whether a former use has no connection and gets none any more.
func (u *use) over() bool { return u.loops.Load() == 0 && u.active.Load() == 0 }

// GenerationCount is the connections of one generation.
type GenerationCount struct {
	Generation uint64
	Active     int64
}

// Change gives the clients of a socket to another service from now on. Connections
// that are there keep theirs.
func (r *Relay) Change(s *Socket, service *Service) {
	s.mu.Lock()
	old := s.current.Swap(&use{socket: s, service: service})
	old.loops.Store(int32(len(r.loops)))
	s.former = append(s.former, old)
	s.mu.Unlock()
	for _, l := range r.loops {
		ok := l.post(func(l *loop) {
			old.loops.Add(-1)
			l.reconsider(s)
		})
		if !ok {
			old.loops.Add(-1)
		}
	}
}
