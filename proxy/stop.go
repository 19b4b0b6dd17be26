package proxy

import (
	"context"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/relay"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// Rest takes every socket out of service if no connection is alive, and tells
// whether it has; Stop is to follow then. It is for sockets that are all shared:
// who is in a queue stays there for the next start, and a client that was accepted
// while Rest looked is served on.
func (e *Engine) Rest() bool {
	e.changing.Lock()
	defer e.changing.Unlock()
	sockets := e.active()
	e.release(sockets)
	if e.relay.Stats().Active == 0 {
		return true
	}
	e.accept(sockets)
	return false
}

// Pause takes every socket out of service and leaves its queue to another process,
// until Resume or Stop. Connections go on. No generation may be applied meanwhile.
func (e *Engine) Pause() {
	e.changing.Lock()
	defer e.changing.Unlock()
	e.release(e.active())
}

// Resume takes back what Pause did.
func (e *Engine) Resume() {
	e.changing.Lock()
	defer e.changing.Unlock()
	e.accept(e.active())
}

// release returns when nothing is accepted from the sockets any more.
func (e *Engine) release(sockets []*listening) {
	released := make([]<-chan struct{}, len(sockets))
	for i, l := range sockets {
		released[i] = e.relay.Release(l.relayed, false)
	}
	for _, gone := range released {
		<-gone
	}
}

func (e *Engine) accept(sockets []*listening) {
	for _, l := range sockets {
		e.relay.Serve(l.relayed)
	}
}

// active are the sockets of the generation in service that are relayed.
func (e *Engine) active() []*listening {
	e.mu.Lock()
	defer e.mu.Unlock()
	var sockets []*listening
	for _, l := range e.sockets {
		if !l.draining && l.relayed != nil {
			sockets = append(sockets, l)
		}
	}
	return sockets
}

// Ending says how Stop ends.
type Ending struct {
	// Leave has queues left to who listens on after this process, also those of sockets
	// that are not shared.
	Leave bool

	// Spread is over what time connections are ended, a share every 200 ms, so that
	// their clients do not all come back at once. 0 = they go on until time is up.
	Spread time.Duration
}

// Stop ends the engine. It takes its sockets out of service first, serves who
// already waits in their queues, lets connections finish until ctx ends, and
// closes what is left then. It is called once.
func (e *Engine) Stop(ctx context.Context, how Ending) {
	e.changing.Lock()
	defer e.changing.Unlock()
	e.mu.Lock()
	e.state = status.Draining
	for _, l := range e.sockets {
		if !l.draining {
			e.drain(l, !l.Shared && !how.Leave, config.Timeout{Never: true})
		}
	}
	pools := e.pools
	e.mu.Unlock()
	if left := e.awaitConnections(ctx, how.Spread); left > 0 {
		e.log.Info("closing what is left", "connections", left)
		e.relay.HangUp(relay.Selection{})
	}
	e.relay.Close()
	close(e.ended)
	endOthers(pools, nil)
	e.running.Wait()
}

// awaitConnections waits until no connection is left, and no queue to be served, or
// ctx ends; it returns how many connections are left.
func (e *Engine) awaitConnections(ctx context.Context, spread time.Duration) int64 {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	t := newThinning(e.relay.Stats().Active, spread)
	for {
		left := e.relay.Stats().Active
		if left == 0 && e.allClosed() {
			return 0
		}
		if n := t.due(left, time.Now()); n > 0 {
			e.relay.HangUpSome(relay.Selection{}, n)
		}
		select {
		case <-ctx.Done():
			return left
		case <-look.C:
		}
	}
}

// allClosed tells whether the descriptor of every socket is closed.
func (e *Engine) allClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.sockets {
		select {
		case <-l.closed:
		default:
			return false
		}
	}
	return true
}
