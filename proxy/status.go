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
		Listeners: status.Listeners{LastError: e.lastError, Sockets: make([]status.Socket, 0, len(e.sockets))},
		Upstreams: make([]status.Upstream, 0, len(e.pools)),
		Connections: status.Connections{
			Active: stats.Active, Accepted: stats.Accepted, Restored: stats.Restored, Lost: e.lost, Failed: stats.Failed,
			BytesIn: stats.BytesIn, BytesOut: stats.BytesOut, Unlogged: stats.Unlogged,
		},
	}
	if e.held && e.state == status.Running {
		s.State = status.Starting
	}
	if stats.Restored > 0 {
		s.Connections.RestorePause = float64(e.pause.Microseconds()) / 1e3
	}
	if e.attached {
		s.Connections.Kept, s.Connections.Unkept = max(0, stats.Active-stats.Unkept), stats.Unkept
	}
	if e.config != nil {
		s.Keep = string(e.config.Global.Keep)
	}
	for _, l := range e.sockets {
		s.Listeners.Sockets = append(s.Listeners.Sockets, l.status(e.generation))
	}
	for _, p := range e.pools {
		s.Upstreams = append(s.Upstreams, p.Status())
	}
	return s
}

// status tells how a socket is. Engine.mu is held.
func (l *listening) status(generation uint64) status.Socket {
	s := status.Socket{
		Socket: l.Label, Names: []string{l.Listener}, State: status.SocketActive, Generations: []uint64{},
		Origin: l.Origin,
	}
	if l.draining {
		s.State = status.SocketDraining
	}
	if l.relayed != nil {
		s.Accepted, s.Paused = l.relayed.Accepted(), l.relayed.Paused()
		for _, g := range l.relayed.Generations() {
			s.Connections += g.Active
			if g.Active > 0 && (l.draining || g.Generation != generation) {
				s.Generations = append(s.Generations, g.Generation)
			}
		}
	}
	if !l.draining {
		s.Generations = append(s.Generations, generation)
	}
	return s
}
