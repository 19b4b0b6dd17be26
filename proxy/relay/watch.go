package relay

import "golang.org/x/sys/unix"

// watch is one listening socket in one loop.
type watch struct {
	socket     *Socket
	index      int
	registered bool
	pausedHere bool            // not registered because descriptors ran out, or accepting fails
	waitsFor   *Limit          // not registered because this limit is reached
	released   chan<- struct{} // draining: closed when the queue is served
	queued     int             // draining: how many of the queue are left at most
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
	l.registerSocket(w)
}

// unlisten stops accepting from a socket.
func (l *loop) unlisten(s *Socket) {
	for i, w := range l.watches {
		if w == nil || w.socket != s {
			continue
		}
		l.unregister(w)
		if w.waitsFor != nil {
			s.paused.Add(-1)
		}
		if w.pausedHere {
			s.paused.Add(-1)
		}
		l.watches[i] = nil
	}
}

// reconsider accepts again from a socket that is in the service of another
// generation now: what it waited for may not be in its way any more.
func (l *loop) reconsider(s *Socket) {
	for _, w := range l.watches {
		if w != nil && w.socket == s && w.waitsFor != nil {
			w.waitsFor = nil
			s.paused.Add(-1)
			l.registerSocket(w)
		}
	}
}

// drainQueue accepts who is already in the queue of a socket that no loop watches
// any more, and says when that is done. Who comes later is not waited for: under a
// flood that would never end.
func (l *loop) drainQueue(s *Socket, released chan<- struct{}) {
	l.draining = append(l.draining, &watch{socket: s, released: released, queued: listenBacklog(s.fd)})
}

// drains tells whether there are queues to be emptied, and nothing speaks against it.
func (l *loop) drains() bool { return len(l.draining) > 0 && !l.paused && !l.held }

// drainQueues takes some clients from each queue that is to be emptied.
func (l *loop) drainQueues() {
	left := l.draining[:0]
	for _, w := range l.draining {
		for range acceptBurst {
			if w.queued == 0 || !anyoneWaits(w.socket.fd) {
				w.queued = 0
				break
			}
			if !l.acceptOne(w) && l.paused {
				break // descriptors are short
			}
			w.queued-- // also for who cannot be accepted: that may never change
		}
		if w.queued > 0 {
			left = append(left, w)
			continue
		}
		close(w.released)
	}
	clear(l.draining[len(left):])
	l.draining = left
}

// pauseAll stops accepting from every socket: descriptors or kernel memory ran
// out, and epoll would go on telling of clients that cannot be taken.
func (l *loop) pauseAll(errno unix.Errno) {
	l.pausedAt = l.now
	if !l.short {
		l.short = true
		l.relay.note(event{kind: paused, err: errno})
	}
	l.paused = true
	for _, w := range l.watches {
		if w != nil && w.registered {
			l.pause(w)
		}
	}
}

// pause stops accepting from one socket until resumeAll.
func (l *loop) pause(w *watch) {
	if w.pausedHere {
		return
	}
	l.unregister(w)
	w.pausedHere = true
	w.socket.paused.Add(1)
}

// resumeAll accepts again: a connection has ended, or it is time to try.
func (l *loop) resumeAll() {
	l.paused = false
	for _, w := range l.watches {
		if w != nil && w.pausedHere {
			w.pausedHere = false
			w.socket.paused.Add(-1)
			l.registerSocket(w)
		}
	}
}

// recovered notes that the shortage is over when none was met for some time.
func (l *loop) recovered() {
	if l.short && !l.paused && l.now-l.pausedAt >= int64(shortageOver) {
		l.short = false
		l.relay.note(event{kind: resumed})
	}
}

// registerSocket lets epoll tell of clients, unless something speaks against it.
func (l *loop) registerSocket(w *watch) {
	switch {
	case w.registered || w.waitsFor != nil || l.held:
		return
	case l.paused:
		l.pause(w)
		return
	}
	if errno := l.register(w.socket.fd, listenEvents, watchTag(w.index), 0); errno != 0 {
		l.relay.note(event{kind: acceptFailed, socket: w.socket.label, err: errno})
		l.pause(w)
		l.failing = true
		return
	}
	w.registered = true
}

func (l *loop) unregister(w *watch) {
	if w.registered {
		_ = epollCtl(l.epfd, unix.EPOLL_CTL_DEL, w.socket.fd, nil)
		w.registered = false
	}
}
