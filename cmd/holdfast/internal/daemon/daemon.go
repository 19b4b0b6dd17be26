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
	Source   config.Source // read at the start and at each reload
	Version  string
	Takeover Takeover // whether to take over from a running instance; "" = TakeoverNever
	Adopt    *Adopt   // another program to take sockets from; nil = none
}

// daemon is one instance between start and stop. What is not said to be otherwise
// belongs to the goroutine of start and run.
type daemon struct {
	source        config.Source
	version       string
	until         context.Context //nolint:containedctx // ends with the first stop signal, for whatever is under way
	log           *slog.Logger
	level         *slog.LevelVar // of log
	engine        *proxy.Engine
	loops         int // of engine
	notify        *systemd.Notifier
	telling       *telling      // what notify has to say
	watchdogEvery time.Duration // 0 = there is no watchdog
	extendEvery   time.Duration // extendEvery; shorter in tests
	environ       []string      // what the manager says to this process and its successors

	current    *generation // in service
	refusal    error       // why the configuration, as it was last read, is not
	unasked    error       // why one of its asks is missing
	kept       kept        // what the holder keeps of it
	unkept     bool        // it does not keep all
	keeperGone bool        // that is logged
	sockets    holding
	keep       *keeping
	live       connections
	short      shortage // of room to keep them
	idle       idleWatch
	handsOn    atomic.Bool // another process is to go on with the sockets; for who closes them

	tookOver  string    // from whom, "" = nobody
	onTrial   bool      // that one is there yet, and has the handover socket
	offering  offering  // to who is taking over from this instance
	succeeded bool      // somebody has
	upgrading upgrading // somebody is to
	adoption  *adoption // of another program's sockets; nil = none

	serving  sync.WaitGroup // the asks, watchdog, who waits for the holder
	unwatch  context.CancelFunc
	failures chan failure  // of asks
	calls    chan func()   // to be run by run
	stopping chan struct{} // closed when run takes no more calls

	lastCalls chan func()   // to be run while connections are drained
	drained   chan struct{} // closed when that is over
}

// lookEvery is how often the instance looks at itself: it tells the service manager how
// things are, and tries again what it could not have.
const lookEvery = 5 * time.Second

// run does what signals and commands ask for until the end, and then stops.
func (d *daemon) run(signals *signals) {
	defer func() { d.idle.stop() }()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for !d.succeeded {
		select {
		case name := <-signals.stop:
			active, _ := d.engine.Connections()
			d.log.Info("stopping", "signal", name, "connections", active)
			d.awaitSession(signals.stop)
			d.stop(signals.stop)
			return
		case <-d.idle.due():
			if !d.offering.active && !d.upgrading.underWay() && d.idle.over(d.engine.Connections()) && d.engine.Rest() {
				d.log.Info("stopping: no connection for exit_idle")
				d.stop(signals.stop)
				return
			}
			continue // nothing has changed
		case fn := <-d.calls:
			fn()
		case <-signals.reload:
			d.hangup()
		case <-signals.upgrade:
			d.serving.Go(d.upgradeUnasked)
		case <-signals.dump:
			d.dump()
		case f := <-d.failures:
			// Traffic goes on: that nobody can ask is no reason to end it.
			d.log.Error("cannot be asked any more", "error", f.err.Error())
			f.of.ended = true
		case <-look.C:
			if !d.offering.active {
				d.reopenAsks()
				d.complete()
				if d.unkept || d.live.unheld.Load() || len(d.live.left) > 0 {
					d.keepLate()
				}
				d.tellShortage()
			}
			d.tellHolder()
			d.tellStatus()
		}
		if !d.offering.active {
			d.keep.settle(d.until, d.current.number)
		}
	}
	active, _ := d.engine.Connections()
	d.log.Info("succeeded by another process", "connections", active)
	d.stop(signals.stop)
}

// Status tells how the instance is. It may be called from any goroutine.
func (d *daemon) Status() status.Status {
	s := d.engine.Status()
	s.Holder = d.keep.holder()
	if s.Holder == status.HolderNone || d.live.unheld.Load() {
		s.Connections.Kept, s.Connections.Unkept = 0, s.Connections.Active // an upgrade at most takes them along
	}
	s.Handover = status.Handover{Last: d.tookOver, LastError: d.upgrading.lastError()}
	return s
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
	limit := d.current.config.Global.DrainTimeout
	d.handsOn.Store(d.offering.active) // who is taking over has the sockets, too
	if d.offering.active {
		d.engine.Pause() // who is taking over hears so from now on
	}
	close(d.stopping)
	if d.succeeded {
		limit = config.Timeout{Duration: d.offering.over}
		d.stepBack()
	} else {
		d.tell(d.notify.Stopping)
		next := d.successor()
		d.handsOn.Store(d.offering.active || next != noSuccessor)
		if d.keepsConnections(next) {
			limit = config.Timeout{} // for those that are not kept
			d.engine.Pause()
			d.live.letGo(d.engine)
		}
	}
	d.finish(limit, further)
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
