package proxy

import (
	"os"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// Status tells how the engine is.
func (e *Engine) Status() status.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	stats := e.relay.Stats()
	s := status.Status{
		Version: e.options.Version, PID: os.Getpid(), Generation: e.generation, State: e.state,
		Holder: status.HolderNone, StartedAt: e.started,
		Listeners: status.Listeners{Sockets: make([]status.Socket, 0, len(e.sockets))},
		Upstreams: make([]status.Upstream, 0, len(e.pools)),
		Connections: status.Connections{
			Active: stats.Active, Accepted: stats.Accepted, Failed: stats.Failed,
			BytesIn: stats.BytesIn, BytesOut: stats.BytesOut, Unlogged: stats.Unlogged,
		},
	}
	if e.config != nil {
		s.Keep = string(e.config.Global.Keep)
	}
	for _, l := range e.sockets {
		s.Listeners.Sockets = append(s.Listeners.Sockets, l.status(e.generation, e.state))
	}
	for _, p := range e.pools {
		s.Upstreams = append(s.Upstreams, p.Status())
	}
	return s
}

func (l *listening) status(generation uint64, state status.State) status.Socket {
	s := status.Socket{
		Socket: l.Label, Names: []string{l.Listener}, State: status.SocketActive, Generations: []uint64{generation},
		Origin: l.Origin, Connections: l.relayed.Active(), Accepted: l.relayed.Accepted(), Paused: l.relayed.Paused(),
	}
	if state == status.Draining {
		s.State = status.SocketDraining
	}
	return s
}
