package proxy

import (
	"context"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/upstream"
)

// pool is an upstream of the generation in service, and how to end its look-ups and
// probes. Connections of an older generation that still dial use it after that.
type pool struct {
	*upstream.Pool
	end context.CancelFunc
}

// succeed makes the pools of a configuration from those in service: an upstream that
// has not changed keeps its pool, another one takes over what is known of its servers.
func (e *Engine) succeed(cfg *config.Config) []*pool {
	former := make(map[string]*pool, len(e.pools))
	for _, p := range e.pools {
		former[p.Name()] = p
	}
	pools := make([]*pool, len(cfg.Upstreams))
	for i, u := range cfg.Upstreams {
		p := former[u.Name]
		switch {
		case p == nil:
			pools[i] = e.run(upstream.New(u, e.log, e.downNotes.known()))
		case p.Config().Equal(u):
			pools[i] = p
		default:
			pools[i] = e.run(p.Next(u))
		}
	}
	return pools
}

func (e *Engine) run(p *upstream.Pool) *pool {
	ctx, cancel := context.WithCancel(context.Background())
	p.OnHealth = e.settleDownNotes
	e.running.Go(func() { p.Run(ctx) })
	return &pool{p, cancel}
}

// endOthers ends the pools that are not in keep.
func endOthers(pools, keep []*pool) {
	kept := make(map[*pool]bool, len(keep))
	for _, p := range keep {
		kept[p] = true
	}
	for _, p := range pools {
		if !kept[p] {
			p.end()
		}
	}
}

// awaitNames waits for the first look-up of every name, so that the first client
// does not find servers without addresses.
func awaitNames(ctx context.Context, pools []*pool) {
	for _, p := range pools {
		select {
		case <-p.Resolved():
		case <-ctx.Done():
			return
		}
	}
}
