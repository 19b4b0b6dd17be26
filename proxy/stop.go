package proxy

import (
	"context"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/config"
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
	released := make([]<-chan struct{}, len(sockets))
	for i, l := range sockets {
		released[i] = e.relay.Release(l.relayed, false)
	}
	for _, gone := range released {
		<-gone
	}
	if e.relay.Stats().Active == 0 {
		return true
	}
	for _, l := range sockets {
		e.relay.Serve(l.relayed)
	}
	return false
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

// Stop ends the engine. It takes its sockets out of service first, serves who
// already waits in their queues, lets connections finish until ctx ends, and
// closes what is left then. With leave, queues are left to who listens on after this
// process, also those of sockets that are not shared. It is called once.
func (e *Engine) Stop(ctx context.Context, leave bool) {
	e.changing.Lock()
	defer e.changing.Unlock()
	e.mu.Lock()
	e.state = status.Draining
	for _, l := range e.sockets {
		if !l.draining {
			e.drain(l, !l.Shared && !leave, config.Timeout{Never: true})
		}
	}
	pools := e.pools
	e.mu.Unlock()
	if left := e.awaitConnections(ctx); left > 0 {
		e.log.Info("closing what is left", "connections", left)
		e.relay.HangUp(nil)
	}
	e.relay.Close()
	close(e.ended)
	endOthers(pools, nil)
	e.running.Wait()
}

// awaitConnections waits until no connection is left, and no queue to be served, or
// ctx ends; it returns how many connections are left.
func (e *Engine) awaitConnections(ctx context.Context) int64 {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		left := e.relay.Stats().Active
		if left == 0 && e.allClosed() {
			return 0
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
