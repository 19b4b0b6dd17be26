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
	ready  bool // false = told to stop while it was starting

	serving  sync.WaitGroup // control socket and metrics
	stopAsks context.CancelFunc
	failures chan error // one of the two ended by itself
}

// Run serves until a signal stops it. An error means that it could not start, and
// then nothing of it is left.
func Run(o Options) error {
	signals := catchSignals()
	defer signals.release()
	return serve(o, signals, newLog(o.Config.Global.LogLevel))
}

// serve is Run with its surroundings.
func serve(o Options, signals *signals, log *slog.Logger) error {
	d, err := start(signals.until, o, log)
	if err != nil {
		return err
	}
	d.run(signals)
	return nil
}

// start brings everything up, or nothing. It waits for nothing any more when until
// ends.
func start(until context.Context, o Options, log *slog.Logger) (_ *daemon, err error) {
	notify, err := systemd.NotifierFromEnv()
	if err != nil {
		log.Warn("cannot notify the service manager", "error", err.Error())
	}
	warnNoEffect(log, o.Config.Global, config.DefaultGlobal(os.Environ()))
	inherited := activation.FromSystemd(log)
	defer inherited.Close()

	d := &daemon{config: o.Config, log: log, notify: notify, failures: make(chan error, 2)}
	var opened closers
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.close())
		}
	}()
	control, err := listenControl(o.Config.Global.ControlSocket)
	if err != nil {
		return nil, err
	}
	opened.add(control.Close)
	metrics, err := listenMetrics(o.Config.Global.Metrics)
	if err != nil {
		return nil, err
	}
	if metrics != nil {
		opened.add(metrics.Close)
	}
	sockets, err := acquire(o.Config, inherited, log)
	if err != nil {
		return nil, err
	}
	for _, s := range sockets {
		opened.add(s.Close)
	}
	d.engine, err = proxy.New(proxy.Options{Version: o.Version, Loops: spreadLoops(), Descriptors: raiseDescriptors(log), Log: log})
	if err != nil {
		return nil, err
	}

	d.ask(control, metrics)
	names, cancel := context.WithTimeout(until, lookupPatience)
	defer cancel()
	d.engine.Start(names, o.Config, sockets)
	d.idle = d.newIdleWatch(sockets)
	if d.ready = until.Err() == nil; d.ready {
		d.tell(d.notify.Ready)
		log.Info("serving", "version", o.Version, "config", o.ConfigFile, "listeners", len(o.Config.Listeners), "sockets", len(sockets), "pid", os.Getpid())
	}
	return d, nil
}

// run waits for the end and then stops.
func (d *daemon) run(signals *signals) {
	defer d.idle.stop()
	for {
		select {
		case name := <-signals.stop:
			active, _ := d.engine.Connections()
			d.log.Info("stopping", "signal", name, "connections", active)
			d.stop(signals.stop)
			return
		case <-d.idle.due():
			if d.idle.over(d.engine.Connections()) && d.engine.Rest() {
				d.log.Info("stopping: no connection for exit_idle")
				d.stop(signals.stop)
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

// stop ends the instance: the sockets first, then connections, when they had their
// time, and who can be asked last. A further stop signal cuts it short.
func (d *daemon) stop(further <-chan string) {
	d.tell(d.notify.Stopping)
	limit := d.config.Global.DrainTimeout
	if !d.ready {
		limit = config.Timeout{} // nobody was served yet
	}
	drain, end := d.drain(limit, further)
	d.engine.Stop(drain)
	end()
	d.stopAsks()
	d.serving.Wait()
	d.log.Info("stopped")
}

// tell notifies the service manager; that it cannot be reached is for the log.
func (d *daemon) tell(what func() error) {
	if err := what(); err != nil {
		d.log.Warn("cannot notify the service manager", "error", err.Error())
	}
}
