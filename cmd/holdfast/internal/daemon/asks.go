package daemon

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/metrics"
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

// listenControl makes the control socket, for this user alone, and the last
// element of its directory where that is missing.
func listenControl(path string) (net.Listener, error) {
	socket := "control socket " + path
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, askError(socket, err)
	}
	l, err := listen(sock.Unix(path), sock.Options{Mode: 0o600})
	if err != nil {
		e := askError(socket, err)
		if errors.Is(err, unix.EADDRINUSE) {
			e.Hint = "stop that instance, or choose another path with --control-socket"
		}
		return nil, e
	}
	return l, nil
}

// listenMetrics opens the metrics address. Without one it gives nil.
func listenMetrics(a *config.Address) (net.Listener, error) {
	if a == nil {
		return nil, nil
	}
	l, err := listen(socketAddr(*a), sock.Options{})
	if err != nil {
		return nil, askError("metrics address "+a.String(), err)
	}
	return l, nil
}

// ask opens the instance to questions until stopAsks: on the control socket, and
// over HTTP where metrics is not nil. The listeners are the servers' from now on.
func (d *daemon) ask(control, metrics net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	d.stopAsks = cancel
	d.serving.Go(func() { d.serveControl(ctx, control) })
	if metrics != nil {
		d.serving.Go(func() { d.serveMetrics(ctx, metrics) })
	}
}

// serveControl answers on the control socket until ctx ends.
func (d *daemon) serveControl(ctx context.Context, l net.Listener) {
	if err := control.Serve(ctx, l, d.engine, d.log); err != nil {
		d.failures <- err
	}
}

// serveMetrics answers on the metrics address until ctx ends.
func (d *daemon) serveMetrics(ctx context.Context, l net.Listener) {
	if err := metrics.Serve(ctx, l, d.engine, d.log); err != nil {
		d.failures <- err
	}
}
