package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Session is the replacement's side of a session: one request after the other, in
// the order of the methods below. Its methods are for one goroutine.
//
// When the original says no, ErrRefused, it is as it was before that request, and others
// can be made. Any other error is the end of the session: ErrGone, an answer that makes no
// sense, a context that ended. After ErrHung the original may be still about to do
// what it was asked for.
type Session struct {
	conn    *conn
	process *pidfd.Process // may be nil
	state   state

	features []string // that both sides have
}

// Greeting is what an original says about itself.
type Greeting struct {
	Version  string
	Protocol int // the one that both sides speak from now on
}

// Received is a listening socket that came. O_NONBLOCK is as the original has it.
type Received struct {
	Label
	FD *sock.FD // the caller's
}

// Process is the original's process, lent until Close: after ErrHung its sockets can be
// taken out of it, and it can be ended. It is nil when the kernel does not tell.
func (s *Session) Process() *pidfd.Process {
	return s.process
}

// Close ends the session. Without a successful ShutdownOriginalNode the original goes
// on as if nothing had been: it accepts again, and so this process is not to.
func (s *Session) Close() error {
	s.state = over
	return errors.Join(s.conn.Close(), s.closeProcess())
}

func (s *Session) closeProcess() error {
	if s.process == nil {
		return nil
	}
	return s.process.Close()
}

// Hello begins the session. It is ErrHung when the original does not answer before
// ctx ends, and ErrBusy when it has another replacement.
func (s *Session) Hello(ctx context.Context, version string) (Greeting, error) {
	answer, err := s.ask(ctx, message{Type: hello, Protocol: protocol, Version: version, Features: features})
	if errors.Is(err, ErrGone) && s.conn.peer.UID == 0 && os.Geteuid() != 0 {
		err = fmt.Errorf("%w: it runs as root and lets in nobody else", err)
	}
	if err != nil {
		return Greeting{}, err
	}
	if answer.Protocol < oldestProtocol || answer.Protocol > protocol {
		return Greeting{}, s.end(hello, fmt.Errorf("it wants handover protocol %d, this version speaks %d to %d",
			answer.Protocol, oldestProtocol, protocol))
	}
	s.features = both(answer.Features)
	return Greeting{Version: answer.Version, Protocol: answer.Protocol}, nil
}

// SendListeningSockets gets all listening sockets of the original, which goes on
// accepting on them. They come all or, with an error, not at all; then only Abort and
// Close are of use.
func (s *Session) SendListeningSockets(ctx context.Context) (got []Received, err error) {
	return s.getAll(ctx, sendListeningSockets)
}

// SendConnections gets what established connections can be gone on with, after
// BeginDrainingConnections. They are the original's until ShutdownOriginalNode has
// succeeded, or its process is gone: nothing may be done with them before. From an
// original without that feature nothing comes. They come all or, with an error, not at
// all. After ErrRefused the handover can go on, but the connections stay where they are.
func (s *Session) SendConnections(ctx context.Context) ([]Received, error) {
	if !slices.Contains(s.features, featureConnections) {
		return nil, nil
	}
	return s.getAll(ctx, sendConnections)
}

// getAll asks until all has come.
func (s *Session) getAll(ctx context.Context, request string) (got []Received, err error) {
	defer func() {
		if err != nil {
			for _, r := range got {
				_ = r.FD.Close() // a copy: nothing was done with it
			}
			got = nil
		}
	}()
	for more := true; more; {
		answer, fds, err := s.exchange(ctx, message{Type: request})
		if err != nil {
			return got, err
		}
		for i, fd := range fds {
			got = append(got, Received{Label: answer.Sockets[i], FD: fd})
		}
		more = answer.More
		if more && len(fds) == 0 {
			return got, s.end(request, fmt.Errorf("%w: more to come after nothing", errMalformed))
		}
	}
	return got, nil
}

// BeginDrainingConnections says that this process accepts on the sockets, and that the
// original is to stop. It does not accept any more when this returns nil, on any
// socket, but would again if the session ended without ShutdownOriginalNode: that is
// due when this process has served alone for a moment, within 10 s. Then the original
// ends its connections one by one, over this time; 0 = at once.
func (s *Session) BeginDrainingConnections(ctx context.Context, over time.Duration) error {
	_, err := s.ask(ctx, message{Type: beginDrainingConnections, OverMS: over.Milliseconds()})
	return err
}

// ShutdownOriginalNode has the original let go of the sockets for good and exit when
// its connections have ended. That is the end of the session.
//
// next is the handover socket, with its file and who waits in its queue: the caller's,
// to be served from now on. It is nil when it did not come, as from an original
// without that feature; then there is room for another one: see [Listen].
func (s *Session) ShutdownOriginalNode(ctx context.Context) (next *sock.Listener, err error) {
	answer, fds, err := s.exchange(ctx, message{Type: shutdownOriginalNode})
	var lost *lostError
	if errors.As(err, &lost) && answer.Type == shutdownOriginalNode {
		_, _, _ = s.conn.receive(ctx) // the original lets go of its socket before it closes
		return nil, nil
	}
	if err != nil || len(fds) == 0 {
		return nil, err
	}
	defer closeAll(fds[1:])
	return adoptHandoverSocket(fds[0], answer.Sockets[0].StoreName), nil
}

// adoptHandoverSocket owns the descriptor. It gives nil for what is no handover
// socket.
func adoptHandoverSocket(fd *sock.FD, storeName string) *sock.Listener {
	l, err := sock.AdoptStored(fd, storeName)
	if err != nil || l.Addr().Network != "unixpacket" || !l.Info.Listening {
		_ = fd.Close() // not ours, whatever it is
		return nil
	}
	// The kernel tells clients the process that has listened last (SO_PEERCRED): from
	// now on it has to be this one.
	if err := unix.Listen(fd.Raw(), math.MaxInt32); err != nil {
		_ = fd.Close()
		return nil
	}
	return l
}

// Abort ends the session. The original is as it was when this returns nil.
func (s *Session) Abort(ctx context.Context) error {
	_, err := s.ask(ctx, message{Type: abort})
	return err
}

// ask makes a request that is answered without descriptors.
func (s *Session) ask(ctx context.Context, request message) (message, error) {
	answer, fds, err := s.exchange(ctx, request)
	if len(fds) > 0 {
		closeAll(fds)
		err = s.end(request.Type, fmt.Errorf("%w: descriptors beside the answer", errMalformed))
	}
	return answer, err
}

// exchange makes a request and waits for its answer. With a lostError there is an
// answer, too.
func (s *Session) exchange(ctx context.Context, request message) (message, []*sock.FD, error) {
	if err := s.state.allows(request.Type); err != nil {
		return message{}, nil, s.failed(request.Type, err)
	}
	err := patiently(ctx, func(ctx context.Context) error { return s.conn.send(ctx, request) })
	if err != nil {
		return message{}, nil, s.end(request.Type, err)
	}
	var answer message
	var fds []*sock.FD
	err = patiently(ctx, func(ctx context.Context) (err error) {
		answer, fds, err = s.conn.receive(ctx)
		return err
	})
	if err == nil && answer.Type != request.Type && answer.Type != failure {
		err = fmt.Errorf("%w: an answer of type %.40q", errMalformed, answer.Type)
	}
	if err == nil && answer.Type == failure && len(fds) > 0 {
		err = fmt.Errorf("%w: descriptors beside an error", errMalformed)
	}
	if err != nil {
		closeAll(fds)
		return answer, nil, s.end(request.Type, err)
	}
	if answer.Type == failure {
		return message{}, nil, s.failed(request.Type, refusal(answer))
	}
	s.state = s.state.after(request.Type, answer)
	return answer, fds, nil
}

// refusal is what an answer of type Error says.
func refusal(m message) error {
	switch m.Code {
	case codeBusy:
		return fmt.Errorf("%w: %w", ErrRefused, ErrBusy)
	case codeNotSupported:
		return fmt.Errorf("%w: %w", ErrRefused, ErrNotSupported)
	}
	return fmt.Errorf("%w: %s", ErrRefused, m.Message)
}

// end is failed for what no further request can follow.
func (s *Session) end(request string, err error) error {
	s.state = over
	switch {
	case errors.Is(err, io.EOF):
		err = ErrGone
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w: %w", ErrHung, err)
	case errors.Is(err, errMalformed):
		err = fmt.Errorf("another program, or a broken one: %w", err)
	}
	return s.failed(request, err)
}

func (s *Session) failed(request string, err error) error {
	return fmt.Errorf("take over from %s: %s: %w", s.conn.peer, request, err)
}
