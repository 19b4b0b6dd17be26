// Package daemon is the life of one running instance: it gathers the listening
// sockets, starts the engine on them, opens the ways to ask it, and stops all of
// it in order when a signal says so.
//
// It is the only place that knows both where sockets come from and what is done
// with them, and the only one that touches the process itself: signals, limits,
// environment.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/proxy"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/systemd"
)

// Options of Run.
type Options struct {
	Config     *config.Config
	ConfigFile string // where it was read from, for the log; "" = flags and environment only
	Version    string
}

// lookupPatience is how long a start waits for the names of servers. Clients wait
// in the queues meanwhile.
const lookupPatience = 5 * time.Second

// daemon is one instance between start and stop.
type daemon struct {
	config *config.Config
	log    *slog.Logger
	engine *proxy.Engine
	notify *systemd.Notifier
	idle   idleWatch

	serving  sync.WaitGroup // control socket and metrics
	stopAsks context.CancelFunc
	failures chan error // one of the two ended by itself
}

// Run serves until a signal or ctx stops it. An error means that it could not
// start, and then nothing of it is left.
func Run(ctx context.Context, o Options) error {
	signals := catchSignals()
	defer signals.release()
	level := new(slog.LevelVar)
	level.Set(levelOf(o.Config.Global.LogLevel))
	log := slog.New(systemd.NewLogHandler(systemd.LogOptions{Identifier: "holdfast", Level: level}))
	d, err := start(ctx, o, log)
	if err != nil {
		return err
	}
	d.run(ctx, signals)
	return nil
}

// start brings everything up, or nothing.
func start(ctx context.Context, o Options, log *slog.Logger) (_ *daemon, err error) {
	notify, err := systemd.NotifierFromEnv()
	if err != nil {
		log.Warn("cannot notify the service manager", "error", err.Error())
	}
	inherited := activation.FromSystemd(log)
	defer inherited.Close()

	d := &daemon{config: o.Config, log: log, notify: notify, failures: make(chan error, 2)}
	askable, err := control.Listen(o.Config.Global.ControlSocket)
	if err != nil {
		return nil, err
	}
	metrics, err := listenMetrics(o.Config.Global.Metrics)
	if err != nil {
		return nil, errors.Join(err, askable.Close())
	}
	sockets, err := acquire(o.Config, inherited, log)
	if err != nil {
		return nil, errors.Join(err, askable.Close(), closeIfOpen(metrics))
	}
	d.engine, err = proxy.New(proxy.Options{Version: o.Version, Loops: spreadLoops(), Descriptors: raiseDescriptors(log), Log: log})
	if err != nil {
		return nil, errors.Join(err, askable.Close(), closeIfOpen(metrics), closeAll(sockets))
	}
	d.ask(askable, metrics)
	names, cancel := context.WithTimeout(ctx, lookupPatience)
	defer cancel()
	d.engine.Start(names, o.Config, sockets)
	d.idle = d.newIdleWatch(sockets)
	d.tell(d.notify.Ready)
	log.Info("serving", "version", o.Version, "config", o.ConfigFile, "listeners", len(o.Config.Listeners), "sockets", len(sockets), "pid", os.Getpid())
	return d, nil
}

// run waits for the end and then stops.
func (d *daemon) run(ctx context.Context, signals *signals) {
	defer d.idle.stop()
	for {
		select {
		case <-ctx.Done():
			d.stop(context.Background())
			return
		case name := <-signals.stop:
			active, _ := d.engine.Connections()
			d.log.Info("stopping", "signal", name, "connections", active)
			drain, cancel := d.drainTime(signals)
			d.stop(drain)
			cancel()
			return
		case <-d.idle.due():
			if d.idle.over(d.engine.Connections()) && d.engine.Rest() {
				d.log.Info("stopping: no connection for exit_idle")
				d.stop(ctx)
				return
			}
		case <-signals.dump:
			d.dump()
		case err := <-d.failures:
			// Traffic goes on: that nobody can ask is no reason to end it.
			d.log.Error("cannot be asked any more", "error", err.Error())
		}
	}
}

// drainTime is how long connections may go on: for the configured time, or until
// a second signal.
func (d *daemon) drainTime(signals *signals) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	if limit := d.config.Global.DrainTimeout; !limit.Never {
		ctx, cancel = context.WithTimeout(context.Background(), limit.Duration)
	}
	go func() {
		select {
		case name := <-signals.stop:
			d.log.Info("stopping at once", "signal", name)
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// stop ends the instance: the sockets first, then connections, for as long as
// drain lasts, and who can be asked last.
func (d *daemon) stop(drain context.Context) {
	d.tell(d.notify.Stopping)
	d.engine.Stop(drain)
	d.stopAsks()
	d.serving.Wait()
	d.log.Info("stopped")
}

// dump writes the state to the log.
func (d *daemon) dump() {
	s := d.engine.Status()
	for _, l := range s.Listeners.Sockets {
		d.log.Info("state of a socket", "socket", l.Socket, "listener", l.Names[0], "state", string(l.State),
			"origin", l.Origin, "connections", l.Connections, "accepted", l.Accepted, "paused", l.Paused)
	}
	for _, u := range s.Upstreams {
		for _, server := range u.Servers {
			d.log.Info("state of a server", "upstream", u.Name, "server", server.Address,
				"healthy", server.Healthy, "connections", server.Connections, "error", server.LastError)
		}
	}
	c := s.Connections
	d.log.Info("state", "state", string(s.State), "generation", s.Generation, "active", c.Active,
		"accepted", c.Accepted, "failed", c.Failed, "bytes_in", c.BytesIn, "bytes_out", c.BytesOut)
}

// tell notifies the service manager; that it cannot be reached is for the log.
func (d *daemon) tell(what func() error) {
	if err := what(); err != nil {
		d.log.Warn("cannot notify the service manager", "error", err.Error())
	}
}

func levelOf(l config.LogLevel) slog.Level {
	switch l {
	case config.LogDebug:
		return slog.LevelDebug
	case config.LogWarn:
		return slog.LevelWarn
	case config.LogError:
		return slog.LevelError
	case config.LogInfo:
	}
	return slog.LevelInfo
}
