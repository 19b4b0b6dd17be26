package activation

import (
	"errors"
	"strings"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// ErrNoSocket means that a listener has no address, and no descriptor came for it.
var ErrNoSocket = errors.New("no address in the config and no socket unit passes a descriptor")

// AcquireError lists everything that keeps listeners from being served, in the
// order of the wants. It is never empty.
type AcquireError []*ListenerError

// Error has one line for each problem, without the hints.
func (e AcquireError) Error() string {
	lines := make([]string, len(e))
	for i, le := range e {
		lines[i] = le.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is and errors.As look at each problem.
func (e AcquireError) Unwrap() []error {
	errs := make([]error, len(e))
	for i, le := range e {
		errs[i] = le
	}
	return errs
}

// ListenerError is one socket that a listener cannot have.
type ListenerError struct {
	Listener string
	Addr     sock.Addr // zero when the listener has no address
	Err      error     // wraps the errno of a failed bind, or ErrNoSocket

	hint string
}

// Error is like "listener alt (tcp 127.0.0.1:8090): address already in use".
func (e *ListenerError) Error() string {
	if e.Addr == (sock.Addr{}) {
		return "listener " + e.Listener + ": " + e.Err.Error()
	}
	return "listener " + e.Listener + " (" + e.Addr.String() + "): " + e.Err.Error()
}

func (e *ListenerError) Unwrap() error {
	return e.Err
}

// Hint says what a person can do about it; "" when there is nothing known to say.
func (e *ListenerError) Hint() string {
	return e.hint
}
