package control

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

// maxConns is how many connections are served at once. Further ones wait in the
// kernel's queue: a command is rather late than refused, and whoever holds
// connections without a word loses them at headerTimeout.
const maxConns = 32

// refusalLogEvery bounds the log lines that a refused user can cause.
const refusalLogEvery = 10 * time.Second

// gate is the listener that the HTTP server sees: it lets in only peers that
// may give orders, and only maxConns of them at a time.
type gate struct {
	net.Listener
	slots  chan struct{} // one element per connection
	closed chan struct{}
	log    *slog.Logger

	// Of refused peers; used by Accept alone, which has one caller.
	refused  int // since the last log line
	loggedAt time.Time
}

func newGate(listener net.Listener, log *slog.Logger) *gate {
	return &gate{
		Listener: listener,
		slots:    make(chan struct{}, maxConns),
		closed:   make(chan struct{}),
		log:      log,
	}
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	select {
	case g.slots <- struct{}{}:
	case <-g.closed:
		return nil, net.ErrClosed
	}
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			<-g.slots
			return nil, err
		}
		if g.admit(conn) {
			return &gatedConn{Conn: conn, leave: sync.OnceFunc(func() { <-g.slots })}, nil
		}
		_ = conn.Close()
	}
}

// admit tells whether conn may stay, and logs if not.
func (g *gate) admit(conn net.Conn) bool {
	cred, err := peer(conn)
	if err == nil && allowed(cred.Uid) {
		return true
	}
	g.refused++
	if now := time.Now(); now.Sub(g.loggedAt) >= refusalLogEvery {
		log := g.log.With("refused", g.refused)
		if err != nil {
			log.Warn("control connection of an unknown user refused", "error", err)
		} else {
			log.Warn("control connection of another user refused", "uid", cred.Uid, "pid", cred.Pid)
		}
		g.refused, g.loggedAt = 0, now
	}
	return false
}

// Close implements net.Listener.
func (g *gate) Close() error {
	close(g.closed)
	return g.Listener.Close()
}

// gatedConn gives its place at the gate back when it is closed.
type gatedConn struct {
	net.Conn
	leave func()
}

func (c *gatedConn) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}
