package proxy

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/relay"
	"github.com/holdfast-proxy/holdfast/proxy/status"
	"github.com/holdfast-proxy/holdfast/proxy/upstream"
)

// Plan is one generation: a configuration, and the sockets of its listeners.
type Plan struct {
	Generation uint64
	Config     *config.Config
	Sockets    []Socket // each for a listener of Config; those in service are known by their ID
}

// closePatience is how long Apply waits for sockets that no listener wants any more
// to be closed. It takes milliseconds unless descriptors are short.
const closePatience = 2 * time.Second

// Apply puts a generation into service, and tells what became of each socket. New
// connections are of that generation as soon as it returns, those that are there
// stay what they are. A socket that is not in the plan serves who is in its queue
// and is closed; its connections may go on for as long as drain_timeout says.
//
// The names of servers are looked up first, for as long as ctx allows. If ctx is
// canceled meanwhile, its error is returned, everything is as before, and the
// sockets stay the caller's. Otherwise they are the engine's.
func (e *Engine) Apply(ctx context.Context, p Plan) ([]status.Change, error) {
	e.changing.Lock()
	defer e.changing.Unlock()
	pools := e.succeed(p.Config)
	awaitNames(ctx, pools)
	if errors.Is(ctx.Err(), context.Canceled) {
		endOthers(pools, e.pools)
		return nil, ctx.Err()
	}
	services, limits := e.services(p, pools)
	e.limits = limits
	for _, l := range p.Config.Listeners {
		e.relay.SetLimit(limits[l.Name], l.MaxConnections)
	}
	changes, gone := e.publish(p, pools, services)
	e.downNotes.begin()
	e.settleDownNotes()
	closing, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	for _, l := range gone {
		changes = append(changes, l.outcome(closing))
	}
	return changes, nil
}

// publish makes the plan the generation in service. It returns what became of its
// sockets, and the sockets that went.
func (e *Engine) publish(p Plan, pools []*pool, services map[string]*relay.Service) (changes []status.Change, gone []*listening) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.accessLog.Store(p.Config.Global.AccessLog)
	e.relay.SetReporting(p.Config.Global.AccessLog || e.log.Enabled(context.Background(), slog.LevelDebug))
	former := make(map[uint64]*listening)
	for _, l := range e.sockets {
		if !l.draining {
			former[l.ID] = l
		}
	}
	var sockets []*listening
	for _, s := range p.Sockets {
		l, what := former[s.ID], status.Kept
		if l == nil {
			l, what = newListening(), status.Taken
			if s.Bound {
				what = status.Bound
			}
		}
		delete(former, s.ID)
		l.Socket = s
		e.serve(l, services[s.Listener])
		sockets = append(sockets, l)
		changes = append(changes, l.changed(what))
	}
	for _, l := range e.sockets {
		if former[l.ID] == l {
			e.drain(l, true, p.Config.Global.DrainTimeout)
			gone = append(gone, l)
		}
		if l.draining {
			sockets = append(sockets, l)
		}
	}
	spareReturned(sockets, p.Config.Global.DrainTimeout)
	if e.generation != 0 { // what another process has left is known by now
		e.drainNotes.keepThose(sockets)
	}
	endOthers(e.pools, pools)
	e.sockets, e.pools, e.config, e.generation = sockets, pools, p.Config, p.Generation
	e.state, e.lastError = status.Running, ""
	return changes, gone
}

// services makes what each listener does, with the limit that it has, or a new one.
func (e *Engine) services(p Plan, pools []*pool) (map[string]*relay.Service, map[string]*relay.Limit) {
	byName := make(map[string]*upstream.Pool, len(pools))
	for _, pool := range pools {
		byName[pool.Name()] = pool.Pool
	}
	limits := make(map[string]*relay.Limit, len(p.Config.Listeners))
	services := make(map[string]*relay.Service, len(p.Config.Listeners))
	for _, l := range p.Config.Listeners {
		limit := e.limits[l.Name]
		if limit == nil {
			limit = relay.NewLimit(l.MaxConnections)
			limit.Enter(e.expected[l.Name])
		}
		limits[l.Name] = limit
		services[l.Name] = newService(l, byName[l.Upstream], limit, p.Generation)
	}
	return services, limits
}

func newService(l config.Listener, pool *upstream.Pool, limit *relay.Limit, generation uint64) *relay.Service {
	s := &relay.Service{
		Listener: l.Name, Generation: generation, Pool: pool, Limit: limit,
		IdleTimeout: l.IdleTimeout, ConnectTimeout: pool.Config().ConnectTimeout, ConnectRetry: pool.Config().ConnectRetry,
	}
	if l.AcceptProxy {
		s.Trusted = l.Trusted
	}
	switch pool.Config().SendProxy {
	case config.SendProxyV1:
		s.SendProxy = 1
	case config.SendProxyV2:
		s.SendProxy = 2
	case config.SendProxyOff:
	}
	return s
}
