package daemon

import (
	"errors"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// AskError is a socket by which the instance is asked and that cannot be opened.
type AskError struct {
	Socket string // "control socket /run/x.sock", "metrics address tcp://127.0.0.1:9117"
	Err    error  // wraps the errno
	Hint   string // what a person can do about it, "" = not known
}

// Error is like "control socket /run/x.sock: in use by process 12 (holdfast)".
func (e *AskError) Error() string { return e.Socket + ": " + e.Err.Error() }

func (e *AskError) Unwrap() error { return e.Err }

// askError drops the address that an error of listen names: the AskError names it.
func askError(socket string, err error) *AskError {
	e := &AskError{Socket: socket, Err: err, Hint: sock.Hint(err)}
	var le *sock.ListenError
	if errors.As(err, &le) {
		e.Err = le.Err
	}
	return e
}
