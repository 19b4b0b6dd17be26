package handover

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// ErrBusy means that another replacement is about to take over, or has just done so.
// Asked again, whoever is the original then answers.
var ErrBusy = errors.New("another replacement is taking over")

// meet finds out whether a connection is one of a replacement, and serves it as such
// when it is its turn.
func (s *server) meet(ctx context.Context, p *silentPeer, fd *sock.FD) {
	c, err := newConn(fd)
	if err != nil {
		s.strange.Warn("handover connection of an unknown user refused", "error", err)
		return
	}
	defer c.Close()
	if !c.peer.Trusted() {
		s.strange.Warn("handover connection of another user refused", "uid", c.peer.UID, "pid", c.peer.PID)
		return
	}

	session := &originalSession{server: s, conn: c, log: s.log.With("replacement", c.peer.PID)}
	hello, err := session.receive(p)
	s.silent.remove(p)
	if err == nil {
		err = fresh.allows(hello.Type)
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, context.Canceled):
		return // who only looks whether somebody is there, or was too slow
	case err != nil:
		s.strange.Warn("handover connection without Hello", "pid", c.peer.PID, "error", err)
		if !errors.Is(err, context.DeadlineExceeded) { // nothing is said unasked
			_ = session.refuse(err) // the connection ends anyway
		}
		return
	}
	if !s.takeTurn() {
		s.strange.Warn("a second replacement refused", "pid", c.peer.PID)
		_ = session.refuse(ErrBusy) // the connection ends anyway
		return
	}
	defer func() { <-s.turn }()
	session.run(ctx, hello)
}

// takeTurn waits a moment for the end of another session. It is false when that goes
// on, and when a replacement has taken over meanwhile.
func (s *server) takeTurn() bool {
	timer := time.NewTimer(busyPatience)
	defer timer.Stop()
	select {
	case s.turn <- struct{}{}:
	case <-timer.C:
		return false
	case <-s.accepting.Done():
		return false
	}
	if s.accepting.Err() != nil {
		<-s.turn
		return false
	}
	return true
}
