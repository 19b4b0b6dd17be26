package daemon

import (
	"sync"
	"time"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// lateClose is for how long an address that this instance has given up may be in use
// nevertheless: systemd closes what it was told to drop some time later.
const lateClose = 2 * time.Second

// leaving are the sockets that no listener wants any more and that are open yet, as
// there may be clients in their queues; each with the last generation that served it.
// Its methods may be called from any goroutine.
type leaving struct {
	mu      sync.Mutex
	sockets map[*sock.Listener]leavingSocket
	going   int       // how many are being closed
	last    time.Time // when one of them was
}

type leavingSocket struct {
	activation.Socket
	generation uint64
}

func (l *leaving) add(s activation.Socket, generation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sockets == nil {
		l.sockets = make(map[*sock.Listener]leavingSocket)
	}
	l.sockets[s.Listener] = leavingSocket{s, generation}
}

// remove takes one back that stays.
func (l *leaving) remove(s activation.Socket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sockets, s.Listener)
}

// closing is called before a socket is closed, and tells whether it was leaving. closed
// is to follow.
func (l *leaving) closing(s activation.Socket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, leaves := l.sockets[s.Listener]
	delete(l.sockets, s.Listener)
	l.going++
	return leaves
}

func (l *leaving) closed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.going--
	l.last = time.Now()
}

func (l *leaving) includes(s activation.Socket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, leaves := l.sockets[s.Listener]
	return leaves
}

// has tells whether there are any of a generation.
func (l *leaving) has(generation uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sockets {
		if s.generation == generation {
			return true
		}
	}
	return false
}

// freeBy is when the addresses of those that leave, or have left, are free at last: not
// later than lateClose from now.
func (l *leaving) freeBy(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sockets) > 0 || l.going > 0 {
		return now.Add(lateClose)
	}
	return l.last.Add(lateClose)
}

// names are those under which they are in the store, or would be.
func (l *leaving) names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, s := range l.sockets {
		names = append(names, storedName(s.Socket))
	}
	return names
}

// listeners are those beside which another socket may be bound. mu is held, as none of
// them may be closed while that goes on.
func (l *leaving) listeners() []*sock.Listener {
	var all []*sock.Listener
	for one := range l.sockets {
		all = append(all, one)
	}
	return all
}
