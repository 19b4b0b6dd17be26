package proxy

import (
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// handshakeTime is how long clients who have begun to connect get to be in the queue
// of a socket that is retired. Over loopback and in a data centre it takes a
// millisecond, over an ocean a fifth of a second.
const handshakeTime = 200 * time.Millisecond

// drain takes a socket out of service. Who waits in its queue is served first where
// queue says so; then it is closed, so that further clients are refused at once, and
// its connections get as long as limit says. e.mu is held.
func (e *Engine) drain(l *listening, queue bool, limit config.Timeout) {
	l.draining = true
	e.running.Go(func() {
		if queue && l.Retire != nil {
			l.Retire()
			time.Sleep(handshakeTime)
		}
		if l.relayed != nil {
			<-e.relay.Release(l.relayed, queue)
		}
		if err := l.Close(); err != nil {
			e.log.Warn("cannot close socket", "socket", l.Label, "error", err.Error())
		}
		close(l.closed)
		e.awaitEnd(l, limit)
		e.forget(l)
	})
}

// How often a drain looks for its last connection: soon after it began, where most
// end, and then less and less often.
const (
	firstLook   = 10 * time.Millisecond
	longestLook = time.Second
)

// awaitEnd returns when the last connection of a drained socket has gone. Those that
// are left when limit is over are ended, unless they are spared by then.
func (e *Engine) awaitEnd(l *listening, limit config.Timeout) {
	var over <-chan time.Time
	if !limit.Never {
		timer := time.NewTimer(limit.Duration)
		defer timer.Stop()
		over = timer.C
	}
	spared := l.spared
	for look := firstLook; l.connections() > 0; look = min(2*look, longestLook) {
		select {
		case <-time.After(look):
		case <-spared:
			over, spared = nil, nil
		case <-over:
			e.log.Info("closing what is left", "socket", l.Label, "listener", l.Listener, "connections", l.connections())
			e.relay.HangUp(l.relayed)
		}
	}
}

// forget drops a socket that is gone.
func (e *Engine) forget(l *listening) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.sockets {
		if e.sockets[i] == l {
			e.sockets = append(e.sockets[:i:i], e.sockets[i+1:]...)
			return
		}
	}
}

// spareReturned lets the connections of drained sockets live whose address is in
// service again: whoever removed a listener by mistake and brings it back has not
// lost them. Engine.mu is held.
func spareReturned(sockets []*listening) {
	active := make(map[string]bool, len(sockets))
	for _, l := range sockets {
		if !l.draining {
			active[l.Label] = true
		}
	}
	for _, l := range sockets {
		if l.draining && !l.isSpared && active[l.Label] {
			l.isSpared = true
			close(l.spared)
		}
	}
}
