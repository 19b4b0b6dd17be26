package proxy

import (
	"context"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/relay"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// Socket is one listening socket that is handed to an engine.
type Socket struct {
	ID       uint64 // tells sockets of the kernel apart: SO_COOKIE of socket(7)
	FD       int
	Label    string // transport and bound address, "tcp 127.0.0.1:8080"
	Listener string // name of the listener that it serves
	Origin   string // "systemd", "bind", …
	Bound    bool   // this process has just made it
	Datagram bool   // it is held and counted, and nothing is read from it
	// Shared tells that somebody else listens on after this process, so that a stop
	// leaves the queue to them. It is never retired.
	Shared bool
	// Retire lets no new client get to the socket, as far as that can be. It is
	// called before its queue is served for the last time; nil = nothing.
	Retire func()
	// Close closes the descriptor. It is called once, when no loop uses it.
	Close func() error
}

// listening is a socket while the engine has it, and after that until its last
// connection has gone.
//
//	active ──no listener wants it──► draining: its queue is served, it is closed,
//	                                 its connections end or are ended ──► gone
type listening struct {
	Socket
	relayed *relay.Socket       // nil before it is served, and for a datagram socket
	closed  chan struct{}       // closed when the descriptor is
	limit   chan config.Timeout // what grant says; room for one

	// Engine.mu guards the rest.
	draining bool
	spared   bool      // it drains, and its address is in service again
	over     time.Time // when those of its connections are ended that are left; zero = that is not known
}

func newListening() *listening {
	return &listening{closed: make(chan struct{}), limit: make(chan config.Timeout, 1)}
}

// serve gives the clients of a socket to a service, now or from now on.
func (e *Engine) serve(l *listening, service *relay.Service) {
	switch {
	case l.Datagram:
	case l.relayed != nil:
		e.relay.Change(l.relayed, service)
	default:
		l.relayed = relay.NewSocket(l.FD, l.ID, l.Label, service)
		e.relay.Serve(l.relayed)
		e.log.Info("listening", "listener", l.Listener, "socket", l.Label, "origin", l.Origin)
	}
}

// changed tells what became of a socket.
func (l *listening) changed(what status.ChangeKind) status.Change {
	return status.Change{Socket: l.Label, Names: []string{l.Listener}, Origin: l.Origin, Change: what}
}

// outcome tells what became of a socket that drains. It waits until it is closed or
// ctx ends.
func (l *listening) outcome(ctx context.Context) status.Change {
	select {
	case <-l.closed:
		if l.connections() == 0 {
			return l.changed(status.Closed)
		}
	case <-ctx.Done():
	}
	return l.changed(status.Drains)
}

// connections is how many are alive that were accepted from it.
func (l *listening) connections() int64 {
	if l.relayed == nil {
		return 0
	}
	return l.relayed.Active()
}
