package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/occasional"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Options of Serve.
type Options struct {
	// Version of this program, for the other side's log.
	Version string

	// StepTimeout is how long a replacement may take from an answer to its next
	// request: while it starts, mostly. 0 = 60 s.
	StepTimeout time.Duration
}

const (
	defaultStepTimeout = 60 * time.Second
	helloTimeout       = 5 * time.Second // a program says Hello without having to think

	// hurriedHello is what is left of helloTimeout while another connection waits: those who
	// say nothing must not make a replacement believe that this process hangs.
	hurriedHello = 50 * time.Millisecond

	// maxPeers is how many connections are served at once, the one that is the session
	// among them. One more is accepted and waits, and further ones in the kernel's queue.
	maxPeers = 8

	// busyPatience is how long a second replacement waits for the end of a session:
	// that of one that was killed may not have been noticed yet.
	busyPatience = time.Second

	acceptPause = time.Second // after an accept for which there was no descriptor

	logEvery = 10 * time.Second // at most, of what strangers can cause
)

// Serve lets replacements take over from o, one after the other, until ctx ends or
// one of them has done it. It returns when the last call of o's methods has. Its
// error means that nobody can take over any more; o goes on all the same.
//
// The socket, which [Listen] has made or an earlier original has passed on, is
// Serve's from now on. Its file is removed at the end, if it still is this socket's,
// unless the replacement has got the socket.
func Serve(ctx context.Context, l *sock.Listener, o Original, options Options, log *slog.Logger) error {
	if options.StepTimeout == 0 {
		options.StepTimeout = defaultStepTimeout
	}
	var err error
	for passed := false; !passed && err == nil && ctx.Err() == nil; {
		passed, err = serveOnce(ctx, l, o, options, log)
	}
	if err := errors.Join(err, l.Close()); err != nil {
		return fmt.Errorf("handover at %s: %w", l.Addr().Path, err)
	}
	return nil
}

// serveOnce is Serve up to the first replacement that takes over, and dies at the very
// end of that unless passed.
func serveOnce(ctx context.Context, l *sock.Listener, o Original, options Options, log *slog.Logger) (passed bool, err error) {
	a, err := newAcceptor(l)
	if err != nil {
		return false, err
	}
	s := &server{
		listener: l,
		original: o,
		options:  options,
		log:      log,
		strange:  occasional.New(log, logEvery),
		peers:    make(chan struct{}, maxPeers),
		turn:     make(chan struct{}, 1),
		accepted: make(chan struct{}),
	}
	s.accepting, s.stop = context.WithCancel(ctx)
	defer s.stop()
	err = s.accept(ctx, a)
	close(s.accepted)
	s.meetings.Wait()
	return s.passed, err
}

// server is one serveOnce.
type server struct {
	listener *sock.Listener
	original Original
	options  Options
	log      *slog.Logger
	strange  *occasional.Log // about who is no replacement

	accepting context.Context // until ctx ends or a replacement is to have the socket
	stop      context.CancelFunc
	accepted  chan struct{} // closed when nothing is accepted any more
	passed    bool          // a replacement has taken over; of its session
	meetings  sync.WaitGroup
	peers     chan struct{} // one element for each connection
	silent    silent        // those of them that have said nothing yet
	turn      chan struct{} // full while a session goes on
}

// accept serves each connection in a goroutine, which ends with the connection: at a
// timeout at last.
func (s *server) accept(ctx context.Context, a *acceptor) error {
	defer a.Close()
	for {
		fd, err := a.accept(s.accepting)
		switch {
		case s.accepting.Err() != nil:
			if fd != nil {
				_ = fd.Close() // nothing was said on it
			}
			return nil
		case isShortage(err):
			s.strange.Warn("cannot accept on the handover socket", "error", err)
			s.pause()
		case err != nil:
			return err
		case !s.admit():
			_ = fd.Close()
			return nil
		default:
			p := s.silent.add(s.accepting, min(helloTimeout, s.options.StepTimeout))
			s.meetings.Go(func() {
				defer func() { <-s.peers }()
				defer s.silent.remove(p)
				s.meet(ctx, p, fd)
			})
		}
	}
}

// admit waits until there are less than maxPeers, and drives those out meanwhile that say
// nothing, one after the other. It is false when nothing is accepted any more.
func (s *server) admit() bool {
	for {
		first := s.silent.first()
		select {
		case s.peers <- struct{}{}:
			return true
		case <-s.accepting.Done():
			return false
		case <-first.overdue():
			s.silent.remove(first)
		}
		select { // the place of the one that was driven out
		case s.peers <- struct{}{}:
			return true
		case <-s.accepting.Done():
			return false
		case <-time.After(hurriedHello):
		}
	}
}

func isShortage(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ENOBUFS)
}

func (s *server) pause() {
	select {
	case <-time.After(acceptPause):
	case <-s.accepting.Done():
	}
}

// stopAccepting leaves the queue of the socket to the next one who accepts.
func (s *server) stopAccepting() {
	s.stop()
	<-s.accepted
}
