package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/proxy"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/systemd"
)

// Run serves until a signal stops it. An error means that it could not start, and
// then nothing of it is left.
func Run(o Options) error {
	signals := catchSignals()
	defer signals.release()
	level := new(slog.LevelVar)
	return serve(o, signals, newLog(level), level)
}

// serve is Run with its surroundings.
func serve(o Options, signals *signals, log *slog.Logger, level *slog.LevelVar) error {
	d, err := start(signals.until, o, log, level)
	if errors.Is(err, context.Canceled) {
		log.Info("stopped while starting")
		return nil
	}
	if err != nil {
		return err
	}
	d.run(signals)
	return nil
}

// start brings everything up, or nothing. It waits for nothing any more when until
// ends; the error is context.Canceled then.
func start(until context.Context, o Options, log *slog.Logger, level *slog.LevelVar) (_ *daemon, err error) {
	notify, err := systemd.NotifierFromEnv()
	if err != nil {
		log.Warn("cannot notify the service manager", "error", err.Error())
	}
	watchdog, err := systemd.WatchdogFromEnv()
	if err != nil {
		log.Warn("no watchdog", "error", err.Error())
	}
	units := activation.FromSystemd(log)
	defer units.Close()
	back := takeBack(units, log)
	defer back.close()

	d := &daemon{
		source: o.Source, log: log, level: level, notify: notify, telling: newTelling(notify, log),
		keep: openKeeping(notify, back.store, log), kept: back.kept,
		failures: make(chan failure, 2), answered: make(chan struct{}), reloads: make(chan reload), stopping: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			d.telling.close()
		}
	}()
	g, refusal, err := d.firstGeneration(until, units, back.sockets)
	if err != nil {
		return nil, err
	}
	level.Set(levelOf(g.config.Global.LogLevel))
	warnNoEffect(log, g.config.Global, config.DefaultGlobal(os.Environ()))
	d.engine, err = proxy.New(proxy.Options{Version: o.Version, Loops: spreadLoops(), Descriptors: raiseDescriptors(log), Log: log})
	if err != nil {
		return nil, errors.Join(err, d.abandon(g))
	}
	leftovers := d.leftoverPlans(g.got) // before keepGeneration, which keeps their configurations
	if err := d.keepGeneration(until, g); err != nil {
		// Better to serve what does not outlive this process than not to serve.
		log.Error("not kept when this process ends", "error", err.Error())
	}
	d.serveLeftovers(until, leftovers)
	if _, err := d.commit(until, g); err != nil {
		d.tell(d.notify.Stopping)
		d.handsOn.Store(d.isSucceeded())
		d.engine.Stop(until, true)
		return nil, err
	}
	if refusal != nil {
		d.refused(refusal)
	}
	d.watch(watchdog)
	log.Info("serving", "version", o.Version, "config", g.inputs.File, "generation", g.number,
		"listeners", len(g.config.Listeners), "sockets", len(d.sockets.inService), "pid", os.Getpid())
	line := d.statusLine()
	d.tell(func() error { return d.notify.Send("READY=1", "STATUS="+line) })
	d.keep.settle(until, g.number)
	return d, nil
}

// firstGeneration prepares the configuration as it is now. If that cannot be served
// and there is something to lose, the instance goes on with the one that was in service
// before, or with as much of it as can be had: a mistake in a file, or somebody in the
// way of one address, must not cost the clients of the others. refusal says what is
// wrong then.
func (d *daemon) firstGeneration(until context.Context, units, stored *activation.Source) (g *generation, refusal, err error) {
	last := d.kept.Current
	inputs, err := d.readConfig(until)
	if err == nil {
		number := last.Number
		if number == 0 || !inputs.Equal(last.Inputs) {
			number++
		}
		g, err = d.prepare(until, number, inputs, units, stored)
	}
	if err == nil || errors.Is(err, context.Canceled) || last.Number == 0 && len(stored.Offers) == 0 {
		return g, nil, err
	}
	switch {
	case last.Number == 0:
		last = keptGeneration{Number: 1, Inputs: inputs}
	case !inputs.Equal(last.Inputs):
		if g, lastErr := d.prepare(until, last.Number, last.Inputs, units, stored); lastErr == nil {
			return g, err, nil
		}
	}
	g, missing, restErr := d.prepareRest(until, last.Number, last.Inputs, units, stored)
	if restErr != nil {
		return nil, nil, err
	}
	d.missing = true
	if !inputs.Equal(last.Inputs) {
		missing = append(severalError{err}, missing...)
	}
	return g, missing, nil
}
