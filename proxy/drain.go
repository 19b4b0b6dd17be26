package proxy

import (
	"slices"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/relay"
)

// handshakeTime is how long clients who have begun to connect get to be in the queue
// of a socket that is retired. Over loopback and in a data centre it takes a
// millisecond, over an ocean a fifth of a second.
const handshakeTime = 200 * time.Millisecond

// drain takes a socket out of service. Who waits in its queue is served first where
// queue says so; then it is closed, so that further clients are refused at once, and
// its connections get as long as limit says. Of a shared one clients go on to come, but
// only those are served who are there. e.mu is held.
func (e *Engine) drain(l *listening, queue bool, limit config.Timeout) {
	l.draining = true
	l.grant(limit)
	e.running.Go(func() {
		if queue && !l.Shared && l.Retire != nil {
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
		e.awaitEnd(l)
		e.forget(l)
	})
}

// How often a drain looks for its last connection: soon after it began, where most
// end, and then less and less often.
const (
	firstLook   = 10 * time.Millisecond
	longestLook = time.Second
)

// grant gives the connections of a draining socket that long, from now on, or from when
// it is closed; what it said before counts no more. Engine.mu is held.
func (l *listening) grant(limit config.Timeout) {
	select {
	case <-l.limit: // awaitEnd has not seen it yet
	default:
	}
	l.limit <- limit
}

// begin begins the time that was granted, and tells when it is over.
func (e *Engine) begin(l *listening, limit config.Timeout) <-chan time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if limit.Never {
		l.over = time.Time{}
		e.drainNotes.drop(l.ID)
		return nil
	}
	l.over = time.Now().Add(limit.Duration)
	e.drainNotes.put(l.ID, l.over)
	return time.After(limit.Duration)
}

// awaitEnd returns when the last connection of a drained socket has gone, or the engine
// has ended. Those that are left when their time is over are ended.
func (e *Engine) awaitEnd(l *listening) {
	var over <-chan time.Time
	for look := firstLook; l.connections() > 0; look = min(2*look, longestLook) {
		select {
		case <-e.ended:
			return
		case <-time.After(look):
		case limit := <-l.limit:
			over = e.begin(l, limit)
		case <-over:
			e.log.Info("closing what is left", "socket", l.Label, "listener", l.Listener, "connections", l.connections())
			e.relay.HangUp(relay.Selection{Socket: l.relayed})
		}
	}
}

// forget drops a socket that is gone.
func (e *Engine) forget(l *listening) {
	if l.relayed != nil {
		e.relay.Forget(l.relayed)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sockets = slices.DeleteFunc(slices.Clone(e.sockets), func(other *listening) bool { return other == l })
	// A socket of a unit may drain twice at a time.
	if !slices.ContainsFunc(e.sockets, func(other *listening) bool { return other.ID == l.ID && other.draining }) {
		e.drainNotes.drop(l.ID)
	}
}

// spareReturned lets the connections of drained sockets go on while their address is in
// service again: whoever removed a listener by mistake and brings it back has not lost
// them. If it is removed once more they get limit. Engine.mu is held.
func spareReturned(sockets []*listening, limit config.Timeout) {
	active := make(map[string]bool, len(sockets))
	for _, l := range sockets {
		if !l.draining {
			active[l.Label] = true
		}
	}
	for _, l := range sockets {
		if !l.draining || l.spared == active[l.Label] {
			continue
		}
		l.spared = active[l.Label]
		if l.spared {
			l.grant(config.Timeout{Never: true})
		} else {
			l.grant(limit)
		}
	}
}
