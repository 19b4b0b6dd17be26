package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Original is a running instance, as seen by who takes over from it. Its methods are
// called one at a time. What they return as an error is told to the replacement, and
// the session goes on.
type Original interface {
	// Sockets lends all listening sockets, and what else the replacement can use, under
	// names with a "/". They stay open, and all there are, until
	// Abandoned is called or Shutdown has succeeded: a reload meanwhile has to wait. An
	// error means that nothing is lent.
	Sockets() ([]Socket, error)

	// BeginDraining is called when the replacement accepts. It returns when this
	// instance does not any more, on any socket, and has left who is in the queues to
	// the replacement. It ends no connection yet: Shutdown does, one by one over this
	// time, so that their clients do not all come back at once; 0 = at once. An error
	// means that it goes on accepting. ctx is that of Serve.
	BeginDraining(ctx context.Context, over time.Duration) error

	// Connections lends what established connections can be gone on with. They are this
	// instance's up to LetGo, but no other may be added to what is lent.
	Connections() ([]Socket, error)

	// LetGo is called before Shutdown: when it returns nil this instance touches none of
	// the connections that it has lent any more, up to an Abandoned. An error means that
	// it goes on with them, and that nobody else may: the successor, as the kernel knows
	// it, has not taken over.
	LetGo(successor sock.Peer) error

	// Shutdown is called when the successor has taken over for good. The sockets are this
	// instance's to close, the files of Unix sockets are not. That its last connections end
	// and the process exits comes later.
	Shutdown(successor sock.Peer)

	// Abandoned is called when a session has ended without Shutdown, also when
	// nothing was asked for in it: all is to be as if it had never been. After a
	// BeginDraining it is to accept again, and soon: nobody else may.
	Abandoned()
}

// Socket is a listening socket of the original.
type Socket struct {
	Label
	FD int // lent
}

// originalSession is the original's side of a session.
type originalSession struct {
	server   *server
	conn     *conn
	log      *slog.Logger
	state    state
	features []string // that both sides have
	left     []Socket // to be sent
	refusals int
}

const (
	// answerTimeout is for a peer that does not read. An answer that is waited for
	// goes into an empty queue.
	answerTimeout = 2 * time.Second

	// drainingTimeout is StepTimeout after BeginDrainingConnections, if that is longer:
	// nobody may accept meanwhile.
	drainingTimeout = 10 * time.Second

	// maxRefusals ends the session of a replacement that asks and asks.
	maxRefusals = 16
)

// run answers requests, of which m is the first, until the session is over.
func (s *originalSession) run(ctx context.Context, m message) {
	err := s.answerAll(ctx, m)
	if s.state != over {
		s.abandon()
		s.log.Warn("the replacement has not taken over: going on", "error", err)
	}
}

func (s *originalSession) answerAll(ctx context.Context, m message) error {
	for {
		if err := s.answer(ctx, m); err != nil || s.state == over {
			return err
		}
		var err error
		if m, err = s.next(ctx); err != nil {
			if errors.Is(err, errMalformed) {
				_ = s.refuse(err) // the session ends anyway
			}
			return err
		}
	}
}

// next waits for the next request as long as a step may take.
func (s *originalSession) next(ctx context.Context) (message, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience())
	defer cancel()
	return s.receive(ctx)
}

func (s *originalSession) patience() time.Duration {
	if s.state >= draining {
		return min(drainingTimeout, s.server.options.StepTimeout)
	}
	return s.server.options.StepTimeout
}

// receive gives a request. Descriptors beside it are closed: none has any.
func (s *originalSession) receive(ctx context.Context) (message, error) {
	m, fds, err := s.conn.receive(ctx)
	closeAll(fds)
	var lost *lostError
	switch {
	case len(fds) > 0 || errors.As(err, &lost):
		return message{}, fmt.Errorf("%w: descriptors beside a request", errMalformed)
	case errors.Is(err, context.DeadlineExceeded):
		return message{}, fmt.Errorf("it asks for nothing any more: %w", err)
	case errors.Is(err, io.EOF):
		return message{}, fmt.Errorf("it has gone: %w", err)
	}
	return m, err
}

// answer does what a request asks for, or says why not. An error ends the session.
func (s *originalSession) answer(ctx context.Context, m message) error {
	if err := s.state.allows(m.Type); err != nil {
		return s.refuse(err)
	}
	if m.Type == shutdownOriginalNode {
		return s.shutdownOriginalNode()
	}
	reply, fds, err := s.do(ctx, m)
	if err != nil {
		return s.refuse(err)
	}
	if err := s.send(reply, fds...); err != nil {
		_ = s.refuse(err) // the session ends anyway
		return err
	}
	s.left = s.left[len(fds):]
	s.state = s.state.after(m.Type, reply)
	return nil
}

func (s *originalSession) do(ctx context.Context, m message) (reply message, fds []int, err error) {
	switch m.Type {
	case hello:
		reply, err = s.hello(m)
	case sendListeningSockets:
		reply, fds, err = s.sendListeningSockets()
	case beginDrainingConnections:
		reply, err = s.beginDrainingConnections(ctx, m)
	case sendConnections:
		reply, fds, err = s.sendConnections()
	case abort:
		reply = s.abort()
	}
	return reply, fds, err
}

func (s *originalSession) hello(m message) (message, error) {
	spoken, err := negotiate(protocol, oldestProtocol, m.Protocol)
	if err != nil {
		return message{}, err
	}
	s.features = both(m.Features)
	s.log.Info("a replacement is starting", "version", m.Version, "protocol", spoken)
	return message{Type: hello, Protocol: spoken, Version: s.server.options.Version, Features: s.features}, nil
}

func (s *originalSession) sendListeningSockets() (message, []int, error) {
	if s.state == greeted {
		var err error
		if s.left, err = s.server.original.Sockets(); err != nil {
			return message{}, nil, err
		}
	}
	return s.sendNext(sendListeningSockets)
}

func (s *originalSession) sendConnections() (message, []int, error) {
	if !slices.Contains(s.features, featureConnections) {
		return message{}, nil, ErrNotSupported
	}
	if s.state == draining {
		var err error
		if s.left, err = s.server.original.Connections(); err != nil {
			return message{}, nil, err
		}
	}
	return s.sendNext(sendConnections)
}

// sendNext sends as much of what is left as one message takes.
func (s *originalSession) sendNext(answer string) (message, []int, error) {
	n := fitting(s.left)
	if n == 0 && len(s.left) > 0 {
		return message{}, nil, fmt.Errorf("socket %.40q: what goes with it is too long", s.left[0].Name)
	}
	reply := message{Type: answer, More: n < len(s.left)}
	var fds []int
	for _, socket := range s.left[:n] {
		reply.Sockets = append(reply.Sockets, socket.Label)
		fds = append(fds, socket.FD)
	}
	return reply, fds, nil
}

func (s *originalSession) beginDrainingConnections(ctx context.Context, m message) (message, error) {
	over := time.Duration(m.OverMS) * time.Millisecond
	if err := s.server.original.BeginDraining(ctx, over); err != nil {
		return message{}, err
	}
	s.log.Info("the replacement accepts, this process does not any more", "drain_over", over)
	return message{Type: beginDrainingConnections}, nil
}

// shutdownOriginalNode passes the point of no return with its answer. If that cannot
// be sent, whoever asked has died since, and the original goes on.
func (s *originalSession) shutdownOriginalNode() error {
	if err := s.server.original.LetGo(s.conn.peer); err != nil {
		return s.refuse(err)
	}
	s.server.stopAccepting()
	if err := s.passOn(); err != nil {
		return err
	}
	s.state = over
	s.server.passed = true
	s.server.original.Shutdown(s.conn.peer)
	s.log.Info("the replacement has taken over")
	return nil
}

// passOn answers ShutdownOriginalNode, with the handover socket where that is wanted
// and possible. Otherwise the path is free before the answer.
func (s *originalSession) passOn() error {
	l := s.server.listener
	if slices.Contains(s.features, featureHandoverSocket) {
		with := message{Type: shutdownOriginalNode, Sockets: []Label{{StoreName: l.StoreName()}}}
		err := s.send(with, l.FD.Raw())
		if err == nil {
			_ = l.FD.Close() // the file is the replacement's
		}
		if err == nil || errors.Is(err, io.EOF) {
			return err
		}
		s.log.Warn("cannot pass the handover socket on", "error", err)
	}
	if err := l.Close(); err != nil {
		s.log.Warn("cannot make room for another handover socket", "error", err)
	}
	return s.send(message{Type: shutdownOriginalNode})
}

func (s *originalSession) abort() message {
	s.abandon()
	s.log.Info("the replacement has given up: going on")
	return message{Type: abort}
}

func (s *originalSession) abandon() {
	s.state = over
	s.server.original.Abandoned()
}

// refuse answers with the reason.
func (s *originalSession) refuse(reason error) error {
	m := message{Type: failure, Message: reason.Error()}
	switch {
	case errors.Is(reason, ErrBusy):
		m.Code = codeBusy
	case errors.Is(reason, ErrNotSupported):
		m.Code = codeNotSupported
	}
	if err := s.send(m); err != nil {
		return err
	}
	if s.refusals++; s.refusals == maxRefusals {
		return fmt.Errorf("%d of its requests were refused, the last one: %w", s.refusals, reason)
	}
	return nil
}

// send does not depend on the end of Serve: an answer that is due goes out.
func (s *originalSession) send(m message, fds ...int) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	return s.conn.send(ctx, m, fds...)
}
