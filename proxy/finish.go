package proxy

import (
	"context"
	"errors"
)

// Finish serves who waits in the queues of sockets that are in no generation's service
// any more, as the plan, a former generation, says; then they are closed. It is for
// sockets that another process has left, and to be called after an Apply. If ctx is
// canceled while names are looked up, its error is returned and the sockets stay the
// caller's.
func (e *Engine) Finish(ctx context.Context, p Plan) error {
	e.changing.Lock()
	defer e.changing.Unlock()
	pools := e.succeed(p.Config)
	awaitNames(ctx, pools)
	defer endOthers(pools, e.pools)
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	services, _ := e.services(p, pools)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range p.Sockets {
		l := newListening()
		l.Socket = s
		e.serve(l, services[s.Listener])
		e.sockets = append(e.sockets, l)
		e.drain(l, true, e.config.Global.DrainTimeout)
	}
	spareReturned(e.sockets, e.config.Global.DrainTimeout)
	return nil
}
