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
func listenControl(path string) (*listener, error) {
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

// listenMetrics opens the metrics address, which may overlap with that of former.
func listenMetrics(a config.Address, former *asked) (*listener, error) {
	var o sock.Options
	if former != nil && !former.ended {
		o.Beside = []*sock.Listener{former.listener.socket}
	}
	l, err := listen(socketAddr(a), o)
	if err != nil {
		return nil, askError("metrics address "+a.String(), err)
	}
	return l, nil
}

// asks are the servers by which the instance is asked; nil = off, or not to be had.
type asks struct {
	control *asked
	metrics *asked
}

// asked is one of them.
type asked struct {
	at       string // the address as configured
	listener *listener
	serve    func(ctx context.Context, l net.Listener) error
	stop     context.CancelFunc // nil = it does not serve yet
	ended    bool               // by itself
}

// answers tells whether who asks at an address gets to this server.
func (a *asked) answers(at string) bool {
	return a != nil && a.at == at && !a.ended && a.listener.socket.Reachable()
}

// openAsks opens the sockets that global asks for. Those that are in service already
// and answer stay. After an error the others are there.
func (d *daemon) openAsks(global config.Global) (asks, error) {
	var failed severalError
	now := d.asksInService()
	next := now
	if at := global.ControlSocket; !now.control.answers(at) {
		next.control = nil
		if l, err := listenControl(at); err == nil {
			next.control = &asked{at: at, listener: l, serve: d.serveControl}
		} else {
			failed = append(failed, err)
		}
	}
	switch {
	case global.Metrics == nil:
		next.metrics = nil
	case !now.metrics.answers(global.Metrics.String()):
		next.metrics = nil
		if l, err := listenMetrics(*global.Metrics, now.metrics); err == nil {
			next.metrics = &asked{at: global.Metrics.String(), listener: l, serve: d.serveMetrics}
		} else {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		return next, failed
	}
	return next, nil
}

// reopenAsks opens again what ended by itself, or what nobody finds any more, as its file
// was removed.
func (d *daemon) reopenAsks() {
	next, err := d.openAsks(d.current.config.Global)
	d.serveAsks(d.current.asks, next)
	d.current.asks = next
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	if reason != "" && reason != d.unasked {
		d.log.Error("cannot be asked", "error", reason)
	}
	d.unasked = reason
}

func (d *daemon) asksInService() asks {
	if d.current == nil {
		return asks{}
	}
	return d.current.asks
}

// each gives the servers that there are.
func (a asks) each(yield func(*asked) bool) {
	for _, one := range []*asked{a.control, a.metrics} {
		if one != nil && !yield(one) {
			return
		}
	}
}

// has tells whether one is among these.
func (a asks) has(one *asked) bool { return one == a.control || one == a.metrics }

// closeOthers closes the sockets that do not serve yet and are not in keep.
func (a asks) closeOthers(keep asks) error {
	var errs []error
	for one := range a.each {
		if !keep.has(one) {
			errs = append(errs, one.listener.Close())
		}
	}
	return errors.Join(errs...)
}

// serveAsks starts the servers of next that are new, and ends those of former that
// are not in next, when they have answered what they were asked.
func (d *daemon) serveAsks(former, next asks) {
	for one := range next.each {
		if !former.has(one) {
			d.start(one)
		}
	}
	for one := range former.each {
		if !next.has(one) {
			one.stop()
		}
	}
}

// failure is a server that ended by itself.
type failure struct {
	of  *asked
	err error
}

// start lets a server answer until it is stopped. Its socket is its own from now on.
func (d *daemon) start(one *asked) {
	ctx, cancel := context.WithCancel(context.Background())
	one.stop = cancel
	d.serving.Go(func() {
		if err := one.serve(ctx, one.listener); err != nil {
			d.failures <- failure{one, err}
		}
	})
}

func (d *daemon) serveControl(ctx context.Context, l net.Listener) error {
	return control.Serve(ctx, l, d, d.log)
}

func (d *daemon) serveMetrics(ctx context.Context, l net.Listener) error {
	return metrics.Serve(ctx, l, d, d.log)
}
