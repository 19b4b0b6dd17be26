package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/handover"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/metrics"
)

// listenControl makes the control socket, for this user alone, and the last
// element of its directory where that is missing.
func listenControl(path string) (*sock.Listener, error) {
	socket := "control socket " + path
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, askError(socket, err)
	}
	l, err := sock.Listen(sock.Unix(path), sock.Options{Mode: 0o600})
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
func listenMetrics(a config.Address, former *asked) (*sock.Listener, error) {
	var o sock.Options
	if former != nil && !former.ended {
		o.Beside = []*sock.Listener{former.socket}
	}
	l, err := sock.Listen(socketAddr(a), o)
	if err != nil {
		return nil, askError("metrics address "+a.String(), err)
	}
	return l, nil
}

// listenHandover makes the socket that a replacement asks.
func listenHandover(path string) (*sock.Listener, error) {
	l, err := handover.Listen(path)
	if err != nil {
		return nil, askError("handover socket "+path, err)
	}
	return l, nil
}

// asks are the servers by which the instance is asked; nil = off, or not to be had.
type asks struct {
	control  *asked
	metrics  *asked
	handover *asked
}

// asked is one of them.
type asked struct {
	at     string // the address as configured
	socket *sock.Listener
	serve  func(ctx context.Context, a *asked) error // owns the socket
	stop   context.CancelFunc                        // nil = it does not serve yet
	closed chan struct{}                             // closed when its listener is
	once   sync.Once
	ended  bool // by itself
}

func newAsked(at string, socket *sock.Listener, serve func(context.Context, *asked) error) *asked {
	return &asked{at: at, socket: socket, serve: serve, closed: make(chan struct{})}
}

// answers tells whether who asks at an address gets to this server.
func (a *asked) answers(at string) bool {
	return a != nil && a.at == at && !a.ended && a.socket.Reachable()
}

// openAsks opens the sockets that global asks for. Those that are in service already
// and answer stay. After an error the others are there.
func (d *daemon) openAsks(global config.Global) (asks, error) {
	var failed severalError
	open := func(now *asked, at string, serve func(context.Context, *asked) error, listen func() (*sock.Listener, error)) *asked {
		if now.answers(at) {
			return now
		}
		socket, err := listen()
		if err != nil {
			failed = append(failed, err)
			return nil
		}
		return newAsked(at, socket, serve)
	}
	now := d.asksInService()
	next := asks{control: open(now.control, global.ControlSocket, d.serveControl, func() (*sock.Listener, error) {
		return listenControl(global.ControlSocket)
	})}
	if global.Metrics != nil {
		next.metrics = open(now.metrics, global.Metrics.String(), d.serveMetrics, func() (*sock.Listener, error) {
			return listenMetrics(*global.Metrics, now.metrics)
		})
	}
	if !d.onTrial {
		next.handover = open(now.handover, global.HandoverSocket, d.serveHandover, func() (*sock.Listener, error) {
			return listenHandover(global.HandoverSocket)
		})
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
	if err != nil && (d.unasked == nil || err.Error() != d.unasked.Error()) {
		d.logProblems("not served", err)
	}
	d.unasked = err
	d.showProblems()
}

// closeAsks lets go of the addresses of all but the handover socket, which another process
// is to have. Requests under way are answered yet.
func (d *daemon) closeAsks() {
	former := d.current.asks
	d.current.asks = asks{handover: former.handover}
	d.serveAsks(former, d.current.asks)
	for one := range former.each {
		if one != former.handover {
			<-one.closed
		}
	}
}

func (d *daemon) asksInService() asks {
	if d.current == nil {
		return asks{}
	}
	return d.current.asks
}

// each gives the servers that there are.
func (a asks) each(yield func(*asked) bool) {
	for _, one := range []*asked{a.control, a.metrics, a.handover} {
		if one != nil && !yield(one) {
			return
		}
	}
}

// has tells whether one is among these.
func (a asks) has(one *asked) bool {
	return one == a.control || one == a.metrics || one == a.handover
}

// closeOthers closes the sockets that do not serve yet and are not in keep.
func (a asks) closeOthers(keep asks) error {
	var errs []error
	for one := range a.each {
		if !keep.has(one) {
			errs = append(errs, one.socket.Close())
		}
	}
	return errors.Join(errs...)
}

// serveAsks starts the servers of next that are new, and ends those of former that
// are not in next, when they have answered what they were asked.
func (d *daemon) serveAsks(former, next asks) {
	for one := range next.each {
		if !former.has(one) {
			d.serveAsk(one)
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

// serveAsk lets a server answer until it is stopped. Its socket is its own from now on.
func (d *daemon) serveAsk(one *asked) {
	ctx, cancel := context.WithCancel(context.Background())
	one.stop = cancel
	d.serving.Go(func() {
		if err := one.serve(ctx, one); err != nil {
			d.failures <- failure{one, err}
		}
	})
}

func (d *daemon) serveControl(ctx context.Context, a *asked) error {
	l, err := a.listener()
	if err != nil {
		return err
	}
	return control.Serve(ctx, l, d, d.log)
}

func (d *daemon) serveMetrics(ctx context.Context, a *asked) error {
	l, err := a.listener()
	if err != nil {
		return err
	}
	return metrics.Serve(ctx, l, d, d.log)
}

func (d *daemon) serveHandover(ctx context.Context, a *asked) error {
	defer close(a.closed)
	return handover.Serve(ctx, a.socket, original{d, new(atomic.Bool)}, handover.Options{Version: d.version}, d.log)
}
