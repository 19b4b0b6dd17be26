package relay

import "sync/atomic"

// Limit counts the connections of one listener over all its sockets and
// generations, and holds further ones back in the kernel's queue.
type Limit struct {
	most   atomic.Int64 // 0 = no limit
	active atomic.Int64
	paused atomic.Bool // a loop has stopped accepting because of it
}

// NewLimit returns a limit of most connections at once; 0 means no limit.
func NewLimit(most int) *Limit {
	l := new(Limit)
	l.most.Store(int64(most))
	return l
}

// enter counts one connection if there is room for it.
func (l *Limit) enter() bool {
	if n, most := l.active.Add(1), l.most.Load(); most > 0 && n > most {
		l.active.Add(-1)
		return false
	}
	return true
}

// Enter counts connections that another relay has, whatever the limit.
func (l *Limit) Enter(connections int64) { l.active.Add(connections) }

// pause notes that a loop will stop accepting. It returns false when there is
// room again: a connection may have left since enter refused.
func (l *Limit) pause() bool {
	l.paused.Store(true)
	most := l.most.Load()
	return most > 0 && l.active.Load() >= most
}

// leave counts connections out, and tells whether loops wait for that.
func (l *Limit) leave(connections int64) (wake bool) {
	l.active.Add(-connections)
	return l.paused.Load() && l.paused.Swap(false)
}

// pauseFor stops accepting from a socket until a connection of its listener ends.
func (l *loop) pauseFor(w *watch, limit *Limit) {
	if !limit.pause() {
		return // there is room again: epoll tells of the waiting client anew
	}
	l.unregister(w)
	w.waitsFor = limit
	w.socket.paused.Add(1)
}

// leave counts a connection out of its limit.
func (l *loop) leave(limit *Limit) {
	l.relay.Leave(limit, 1)
}

// Leave counts connections out of a limit.
func (r *Relay) Leave(limit *Limit, connections int64) {
	if limit.leave(connections) {
		r.each(func(l *loop) { l.resume(limit) })
	}
}

// SetLimit changes a limit. Connections that are there stay, also if they are more.
func (r *Relay) SetLimit(limit *Limit, most int) {
	if limit.most.Swap(int64(most)) != int64(most) {
		r.each(func(l *loop) { l.resume(limit) })
	}
}

// resume accepts again from the sockets that a limit held back.
func (l *loop) resume(limit *Limit) {
	for _, w := range l.watches {
		if w != nil && w.waitsFor == limit {
			w.waitsFor = nil
			w.socket.paused.Add(-1)
			l.registerSocket(w)
		}
	}
}
