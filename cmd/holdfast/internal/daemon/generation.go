package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/proxy"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// lookupPatience is how long a start or a reload waits for the names of servers.
// Clients of a start wait in the queues meanwhile.
const lookupPatience = 5 * time.Second

// generation is one configuration with what it needs to be served.
//
//	prepare ──► keep ──► commit ──► in service
//	   └────────refused────┴──► abandon: as if it had never been
//
// Up to commit everything is opened beside what is in service, and nothing of that is
// touched. Who is killed in between leaves sockets in the store that no configuration
// wants, or one that wants them and was not in service yet: the next start serves
// either.
type generation struct {
	number  uint64
	inputs  config.Inputs
	config  *config.Config
	got     *activation.Result      // the sockets of its listeners
	missing activation.AcquireError // those that could not be had
	asks    asks
	pushed  []string // names under which the store got what it had not
}

// prepare opens what a configuration needs and the instance has not. Its error tells all
// that cannot be had; at a start, where there are sources, those have theirs still.
func (d *daemon) prepare(number uint64, inputs config.Inputs, sources ...*activation.Source) (*generation, error) {
	g, err := newGeneration(number, inputs)
	if err != nil {
		return nil, err
	}
	var failed severalError
	if g.asks, err = d.openAsks(g.config.Global); err != nil {
		failed = append(failed, err)
	}
	if len(failed) == 0 || len(sources) == 0 { // an Acquire that succeeds empties them
		if g.got, err = d.acquire(wants(g.config), sources); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		if g.got != nil {
			g.got.Retire()
			failed = appendError(failed, g.got.Close())
		}
		return nil, appendError(failed, g.asks.closeOthers(d.asksInService()))
	}
	return g, nil
}

// prepareRest is prepare for a start that has something to lose: what cannot be had is
// missing.
func (d *daemon) prepareRest(number uint64, inputs config.Inputs, sources ...*activation.Source) (*generation, error) {
	g, err := newGeneration(number, inputs)
	if err != nil {
		return nil, err
	}
	g.got, g.missing = d.sockets.acquireRest(wants(g.config), sources)
	if len(g.got.Listeners) == 0 {
		return nil, errors.Join(g.missing, g.got.Close())
	}
	g.asks, d.unasked = d.openAsks(g.config.Global)
	return g, nil
}

func newGeneration(number uint64, inputs config.Inputs) (*generation, error) {
	cfg, err := inputs.Parse()
	if err != nil {
		return nil, err
	}
	return &generation{number: number, inputs: inputs, config: cfg}, nil
}

// abandon gives back what was opened for a generation that is not to be.
func (d *daemon) abandon(g *generation) error {
	g.got.Retire() // the holder may be slow, and nobody accepts from them
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	return errors.Join(d.keep.remove(ctx, g.pushed...), g.got.Close(), g.asks.closeOthers(d.asksInService()))
}

// keepGeneration has the holder keep what the next process needs to serve a
// generation: its sockets, and itself. All of it is kept, or nothing.
func (d *daemon) keepGeneration(ctx context.Context, g *generation) error {
	k := d.keptOf(g)
	var own []activation.Socket
	for _, l := range g.got.Listeners {
		for _, s := range l.Sockets {
			if s.Origin != activation.Systemd {
				own = append(own, s)
			}
		}
	}
	var err error
	if g.pushed, err = d.keep.push(ctx, own, k); err != nil {
		return err
	}
	d.kept, d.unkept = k, false
	return nil
}

// keptOf is what is to be kept of a generation beside its sockets: itself, and what may
// still have clients in its queues: the generation that it replaces, and those of sockets
// that leave already.
func (d *daemon) keptOf(g *generation) kept {
	k := kept{Format: keptFormat, Current: keptGeneration{g.number, g.inputs}}
	for i, former := range d.kept.generations() {
		if former.Number != g.number && (i == 0 || d.sockets.leaving.has(former.Number)) {
			k.Older = append(k.Older, former)
		}
	}
	return k
}

// keepIfPossible is keepGeneration where it is better to serve what does not outlive this
// process than not to serve; it is tried again. It tells whether it is kept.
func (d *daemon) keepIfPossible(ctx context.Context, g *generation) bool {
	err := d.keepGeneration(ctx, g)
	if err != nil && !d.unkept {
		d.log.Error("not kept when this process ends", "error", err.Error())
	}
	d.unkept = err != nil
	return err == nil
}

// commit puts a generation into service. It fails only if until is canceled.
func (d *daemon) commit(g *generation) ([]status.Change, error) {
	for _, s := range g.got.Idle {
		if s.Origin != activation.Systemd {
			d.sockets.leaving.add(s, d.current.number)
		}
	}
	names, cancel := d.forNames()
	defer cancel()
	changes, err := d.engine.Apply(names, d.plan(g))
	if err != nil {
		for _, s := range g.got.Idle {
			d.sockets.leaving.remove(s) // they stay in service
		}
		return nil, errors.Join(err, d.abandon(g))
	}
	former := d.asksInService()
	d.current = g
	d.serveAsks(former, g.asks)
	d.sockets.settle(g.got)
	d.showProblems()
	d.level.Set(levelOf(g.config.Global.LogLevel))
	d.idle.stop()
	d.idle = d.newIdleWatch()
	return changes, nil
}

// forNames is for how long the names of servers are waited for: not at all while
// connections of another process stand still. Who needs a name then waits himself.
func (d *daemon) forNames() (context.Context, context.CancelFunc) {
	if d.live.waits() {
		return context.WithTimeout(d.until, 0)
	}
	return context.WithTimeout(d.until, lookupPatience)
}

// plan is a generation as the engine takes it.
func (d *daemon) plan(g *generation) proxy.Plan {
	p := proxy.Plan{Generation: g.number, Config: g.config}
	for _, l := range g.got.Listeners {
		for _, s := range l.Sockets {
			served := d.served(l.Name, s)
			served.Bound = g.got.Bound(s)
			p.Sockets = append(p.Sockets, served)
		}
	}
	return p
}
