package relay

import "golang.org/x/sys/unix"

// watch is one listening socket in one loop.
type watch struct {
	socket *Socket
	index  int
	polled bool
	hungry bool            // not polled because descriptors ran out
	held   *Limit          // not polled because this limit is reached
	gone   chan<- struct{} // leaving: closed when the queue is empty
}

// listen starts accepting from a socket.
func (l *loop) listen(s *Socket) {
	w := &watch{socket: s, index: len(l.watches)}
	for i := range l.watches {
		if l.watches[i] == nil {
			w.index = i
			break
		}
	}
	if w.index == len(l.watches) {
		l.watches = append(l.watches, nil)
	}
	l.watches[w.index] = w
	if !l.starved {
		l.pollSocket(w)
	}
}

// unlisten stops accepting from a socket.
func (l *loop) unlisten(s *Socket) {
	for i, w := range l.watches {
		if w != nil && w.socket == s {
			l.unpoll(w)
			l.unhold(w)
			if w.hungry {
				w.socket.paused.Add(-1)
			}
			l.watches[i] = nil
		}
	}
}

// serveQueue accepts who is already in the queue of a socket that no loop watches
// any more, then says so.
func (l *loop) serveQueue(s *Socket, gone chan<- struct{}) {
	l.leaving = append(l.leaving, &watch{socket: s, gone: gone})
	l.lastCalls()
}

func (l *loop) lastCalls() {
	left := l.leaving[:0]
	for _, w := range l.leaving {
		for l.acceptOne(w) {
		}
		if l.starved {
			left = append(left, w)
			continue
		}
		close(w.gone)
	}
	clear(l.leaving[len(left):])
	l.leaving = left
}

// hold stops accepting from a socket until a connection of its listener ends.
func (l *loop) hold(w *watch, limit *Limit) {
	if !limit.pause() {
		return // there is room again: epoll tells of the waiting client anew
	}
	l.unpoll(w)
	w.held = limit
	w.socket.paused.Add(1)
}

func (l *loop) unhold(w *watch) {
	if w.held != nil {
		w.held = nil
		w.socket.paused.Add(-1)
	}
}

// leave counts a connection out of its limit.
func (l *loop) leave(limit *Limit) {
	if limit.leave() {
		l.relay.each(func(l *loop) { l.resume(limit) })
	}
}

// resume accepts again from the sockets that a limit held back.
func (l *loop) resume(limit *Limit) {
	for _, w := range l.watches {
		if w != nil && w.held == limit {
			l.unhold(w)
			if !l.starved {
				l.pollSocket(w)
			}
		}
	}
}

// starve stops accepting from every socket: descriptors or kernel memory ran out,
// and epoll would go on telling of clients that cannot be taken.
func (l *loop) starve(errno unix.Errno) {
	if l.starved {
		return
	}
	l.starved = true
	l.relay.say(event{kind: starved, err: errno})
	for _, w := range l.watches {
		if w != nil && w.polled {
			l.unpoll(w)
			w.socket.paused.Add(1)
			w.hungry = true
		}
	}
}

// feed accepts again: a connection has ended, or it is time to try.
func (l *loop) feed() {
	if !l.starved {
		return
	}
	l.starved = false
	for _, w := range l.watches {
		if w == nil {
			continue
		}
		if w.hungry {
			w.hungry = false
			w.socket.paused.Add(-1)
		}
		if w.held == nil {
			l.pollSocket(w)
		}
	}
}

func (l *loop) pollSocket(w *watch) {
	if w.polled {
		return
	}
	if errno := l.poll(w.socket.fd, listenEvents, watchTag(w.index), 0); errno != 0 {
		l.relay.say(event{kind: acceptFailed, socket: w.socket.label, err: errno})
		return
	}
	w.polled = true
}

func (l *loop) unpoll(w *watch) {
	if w.polled {
		_ = epollCtl(l.epfd, unix.EPOLL_CTL_DEL, w.socket.fd, nil)
		w.polled = false
	}
}
