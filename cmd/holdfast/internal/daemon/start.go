package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
	"github.com/holdfast-proxy/holdfast/proxy"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/systemd"
)

// began is when this process was started, but for some milliseconds.
var began = time.Now()

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
	reason := reasonFromEnv()
	d, err := start(signals.until, o, log, level)
	tellReason(reason, err)
	var withdrawn *withdrawnError
	if errors.As(err, &withdrawn) {
		withdrawn.drain(signals.stop)
	}
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

// start brings everything up, or nothing, but for the clients of a withdrawnError. It
// waits for nothing any more when until ends; the error is context.Canceled then.
func start(until context.Context, o Options, log *slog.Logger, level *slog.LevelVar) (*daemon, error) {
	environ := managerEnviron()
	notify, err := systemd.NotifierFromEnv()
	if err != nil {
		log.Warn("cannot notify the service manager", "error", err.Error())
	}
	watchdog, err := systemd.WatchdogFromEnv()
	if err != nil {
		log.Warn("no watchdog", "error", err.Error())
	}
	d := &daemon{
		source: o.Source, version: o.Version, until: until, log: log, level: level,
		notify: notify, telling: newTelling(notify, log), keep: newKeeping(notify, log), environ: environ, watchdogEvery: watchdog, extendEvery: extendEvery,
		adoption: newAdoption(o.Adopt, log),
		failures: make(chan failure, 3), calls: make(chan func()), stopping: make(chan struct{}),
		lastCalls: make(chan func()), drained: make(chan struct{}),
	}
	if err := d.serveFrom(activation.FromSystemd(log), o.Takeover); err != nil {
		d.telling.close()
		return nil, err
	}
	d.allowKeeper()
	d.watch()
	log.Info("serving", "version", o.Version, "config", d.current.inputs.Path(), "generation", d.current.number,
		"listeners", len(d.current.config.Listeners), "sockets", len(d.sockets.inService), "pid", os.Getpid())
	line := d.statusLine()
	d.tell(func() error { return notify.Send("READY=1", "STATUS="+line) })
	d.keep.settle(until, d.current.number)
	return d, nil
}

// errOwnerLives is why a start fails that the holder has passed connections to, and that
// does not take over from who has them: their sockets are that one's, too.
var errOwnerLives = errors.New("the connections that are kept for this process are those of another one, which lives and is not taken over from: end that one first")

// serveFrom puts the first generation into service: in the place of a running instance,
// or alone. passed is what this process was started with.
func (d *daemon) serveFrom(passed *activation.Source, mode Takeover) (err error) {
	defer passed.Close()
	back := takeBack(passed, d.log)
	defer back.close()
	d.live = connections{log: d.log, left: back.vault, since: began}
	defer func() {
		if err != nil {
			d.live.closeLeft()
		}
	}()
	inputs, unread := d.source.Read(d.until)
	over, err := d.meet(mode, inputs, unread, back.kept)
	if err != nil {
		return err
	}
	defer over.close()
	if over == nil && vault.IsOwned(back.vault) {
		return errOwnerLives
	}
	if over != nil {
		back.store.Known = append(back.store.Known, over.stored...)
	}
	d.keep.find(d.until, back.store)
	if over == nil && d.adoption.due(back) {
		return d.adopt(passed, inputs, unread)
	}
	d.adoption.rejoin(d.until)
	if over != nil {
		d.live.closeLeft() // the other process has it too, and uses it
		return d.takeOver(over, passed, back.sockets)
	}
	return d.serveAlone(passed, back, inputs, unread)
}

// allowKeeper lets what the keeper starts take descriptors, should this process hang, where
// Yama lets only ancestors do so. Whoever has become its parent when the keeper died is not
// let.
func (d *daemon) allowKeeper() {
	parent := os.Getppid()
	if !d.isKeepersChild() {
		return
	}
	if err := pidfd.Allow(parent); err != nil {
		d.log.Debug("the keeper's next process could not take over from this one if it hung", "error", err.Error())
	}
}

// managerEnviron is what a replacement is told of the manager beside its sockets, before
// this process takes it out of its environment.
func managerEnviron() []string {
	var set []string
	for _, name := range []string{"WATCHDOG_USEC", "FDSTORE"} {
		if value, ok := os.LookupEnv(name); ok {
			set = append(set, name+"="+value)
		}
	}
	return set
}

// serveAlone puts the first generation into service where nobody is taken over from.
func (d *daemon) serveAlone(units *activation.Source, back tookBack, inputs config.Inputs, unread error) error {
	d.kept = back.kept
	g, refusal, err := d.firstGeneration(inputs, unread, units, back.sockets)
	if err != nil {
		return err
	}
	d.refusal = refusal // before anybody can ask
	if err := d.serveFirst(g); err != nil {
		return err
	}
	d.logProblems("configuration refused", refusal)
	if len(g.missing) > 0 {
		d.logProblems("not served", g.missing)
	}
	if d.unasked != nil {
		d.logProblems("not served", d.unasked)
	}
	return nil
}

// serveFirst puts a generation into service that was prepared while nothing was.
func (d *daemon) serveFirst(g *generation) error {
	if err := d.startEngine(g); err != nil {
		return err
	}
	leftovers := d.leftoverPlans(g) // before keepGeneration, which keeps their configurations
	d.keepIfPossible(d.until, g)
	d.openConnections(g)
	d.entrustConnections(d.until, g)
	if _, err := d.commit(g); err != nil {
		d.tell(d.notify.Stopping)
		d.unserve()
		return err
	}
	d.serveLeftovers(leftovers)
	d.live.goOn(d.engine)
	return nil
}

// startEngine makes the engine, for a generation that it does not serve yet, and that is
// abandoned after an error.
func (d *daemon) startEngine(g *generation) (err error) {
	d.level.Set(levelOf(g.config.Global.LogLevel))
	d.loops = spreadLoops()
	d.engine, err = proxy.New(proxy.Options{Version: d.version, Loops: d.loops, Descriptors: raiseDescriptors(d.log), Log: d.log})
	if err != nil {
		return errors.Join(err, d.abandon(g))
	}
	return nil
}

// unserve ends the engine when its first generation was not put into service: the
// instance was told to stop meanwhile.
func (d *daemon) unserve() {
	d.engine.Stop(d.until, proxy.Ending{Leave: true})
	_ = d.live.close() // the holder has it still
}

// firstGeneration prepares the configuration as it is now. If that cannot be served
// and there is something to lose, the instance goes on with what there is: a mistake in
// a file, or somebody in the way of one address, must not cost the clients of the
// others. refusal says what is wrong with the configuration then.
func (d *daemon) firstGeneration(inputs config.Inputs, unread error, units, stored *activation.Source) (g *generation, refusal, err error) {
	last, err := d.kept.Current, unread
	if err == nil {
		number := last.Number
		if number == 0 || !inputs.Equal(last.Inputs) {
			number++
		}
		g, err = d.prepare(number, inputs, units, stored)
	}
	if err == nil || errors.Is(err, context.Canceled) || last.Number == 0 && len(stored.Offers) == 0 {
		return g, nil, err
	}
	if last.Number == 0 {
		last = keptGeneration{Number: 1, Inputs: inputs}
	}
	g, lastErr := d.lastResort(last, units, stored)
	switch {
	case errors.Is(lastErr, context.Canceled):
		return nil, nil, lastErr
	case lastErr != nil:
		return nil, nil, err
	case !inputs.Equal(last.Inputs):
		refusal = err
	}
	return g, refusal, nil
}

// lastResort prepares the configuration that was in service before, or as much of it as
// can be had.
func (d *daemon) lastResort(last keptGeneration, units, stored *activation.Source) (*generation, error) {
	g, err := d.prepare(last.Number, last.Inputs, units, stored)
	if err == nil || errors.Is(err, context.Canceled) {
		return g, err
	}
	return d.prepareRest(last.Number, last.Inputs, units, stored)
}

// watch looks after the service manager's watchdog, where there is one, after who
// keeps and how much, and after a program whose sockets were adopted, until unwatch.
func (d *daemon) watch() {
	if d.unwatch != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.unwatch = cancel
	if d.adoption != nil {
		held := d.sockets.all()
		d.serving.Go(func() { d.adoption.follow(ctx, held) })
	}
	if d.watchdogEvery > 0 {
		d.serving.Go(func() { d.watchdog(ctx, d.watchdogEvery) })
	}
	if d.keep.mayOpen() {
		d.serving.Go(func() { d.awaitHolder(ctx) })
	}
	if d.keep.capacity != nil {
		d.serving.Go(func() { d.keep.followCapacity(ctx) })
	}
	if d.keep.client != nil {
		d.serving.Go(func() { d.followKeeper(ctx) })
	}
}
