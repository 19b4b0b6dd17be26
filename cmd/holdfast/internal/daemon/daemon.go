// Package daemon is the life of one running instance: it gathers the listening
// sockets, starts the engine on them, opens the ways to ask it, puts new
// configurations into service, and stops all of it in order when a signal says so.
//
// It is the only place that knows where sockets come from, what is done with them
// and who keeps them when the process is gone, and the only one that touches the
// process itself: signals, limits, environment.
//
// start.go brings an instance up, generation.go puts one configuration into service,
// at a start as at a reload, and run below is the loop of the instance's life.
package daemon

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/status"
	"github.com/holdfast-proxy/holdfast/systemd"
)

// Options of Run.
type Options struct {
	Source  config.Source // read at the start and at each reload
	Version string
}

// daemon is one instance between start and stop. What is not said to be otherwise
// belongs to the goroutine of start and run.
type daemon struct {
	source  config.Source
	log     *slog.Logger
	level   *slog.LevelVar // of log
	engine  *proxy.Engine
	notify  *systemd.Notifier
	telling *telling // what notify has to say

	current *generation // in service
	missing bool        // a part of it is not, as that could not be had at the start
	kept    kept        // what the holder keeps of it
	sockets holding
	keep    *keeping
	idle    idleWatch
	unasked string      // why there is no control socket or no metrics, "" = there are
	handsOn atomic.Bool // another process is to go on with the sockets; for who closes them

	serving  sync.WaitGroup // control socket, metrics, watchdog, who waits for the holder
	unwatch  context.CancelFunc
	failures chan failure  // of the first two
	answered chan struct{} // the holder, late
	reloads  chan reload
	stopping chan struct{} // closed when run takes no more reloads
}

// lookEvery is how often the instance looks at itself: it tells the service manager how
// things are, and tries again what it could not have.
const lookEvery = 5 * time.Second

// run does what signals and commands ask for until the end, and then stops.
func (d *daemon) run(signals *signals) {
	defer func() { d.idle.stop() }()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
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
		case r := <-d.reloads:
			changes, err := d.reload(signals.until)
			r.answer <- answer{changes, err}
			d.keep.settle(signals.until, d.current.number)
		case <-signals.reload:
			d.hangup(signals.until)
			d.keep.settle(signals.until, d.current.number)
		case <-signals.dump:
			d.dump()
		case f := <-d.failures:
			// Traffic goes on: that nobody can ask is no reason to end it.
			d.log.Error("cannot be asked any more", "error", f.err.Error())
			f.of.ended = true
		case <-d.answered:
			d.keepLate(signals.until)
		case <-look.C:
			d.reopenAsks()
			d.complete(signals.until)
			d.tellStatus()
		}
	}
}

// Status tells how the instance is. It may be called from any goroutine.
func (d *daemon) Status() status.Status {
	s := d.engine.Status()
	s.Holder = d.keep.holder()
	return s
}

// number is that of the generation in service, or of the one before a restart.
func (d *daemon) number() uint64 {
	if d.current == nil {
		return d.kept.Current.Number
	}
	return d.current.number
}

// isStopping tells whether the end has begun. It may be called from any goroutine.
func (d *daemon) isStopping() bool {
	select {
	case <-d.stopping:
		return true
	default:
		return false
	}
}

// stop ends the instance: the sockets first, then connections, when they had their
// time, and who can be asked last. A further stop signal cuts it short.
func (d *daemon) stop(further <-chan string) {
	close(d.stopping)
	d.tell(d.notify.Stopping)
	d.handsOn.Store(d.isSucceeded())
	drain, over := d.drain(d.current.config.Global.DrainTimeout, further)
	d.sockets.closeIdle()
	d.engine.Stop(drain, d.handsOn.Load())
	over()
	if !d.handsOn.Load() {
		d.keep.clear()
	}
	for one := range d.current.asks.each {
		one.stop()
	}
	d.unwatch()
	d.serving.Wait()
	d.telling.close()
	d.log.Info("stopped")
}

// tell has the service manager told, soon.
func (d *daemon) tell(message func() error) { d.telling.tell(message) }

// tellStatus tells the service manager how the instance is.
func (d *daemon) tellStatus() {
	line := d.statusLine()
	d.tell(func() error { return d.notify.Status(line) })
}
