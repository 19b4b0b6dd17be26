package relay

import (
	"net/netip"
	"time"
)

// A loop never writes a log: whoever reads it may be slow, and every connection of
// the loop would wait. It leaves a note, and one goroutine writes (log.go). Notes
// that find no room are counted and dropped.

// End tells how one connection went.
type End struct {
	Listener, Socket  string
	Upstream, Server  string // Server is "" when none was reached
	Client            netip.AddrPort
	Generation        uint64
	BytesIn, BytesOut int64 // from and to the client
	Duration          time.Duration
	Reason            Reason
}

// report leaves a note of how a connection ended.
func (r *Relay) report(l *loop, p *pair, reason Reason) {
	if !r.reporting.Load() {
		return
	}
	e := End{
		Listener: p.use.service.Listener, Socket: p.use.socket.label, Upstream: p.use.service.Pool.Name(),
		Client: p.peer, Generation: p.use.service.Generation,
		BytesIn: p.flow[client].moved, BytesOut: p.flow[server].moved,
		Duration: time.Duration(l.now - p.opened), Reason: reason,
	}
	if p.endpoint != nil {
		e.Server = p.endpoint.String()
	}
	select {
	case r.ends <- e:
	default:
		r.unlogged.Add(1)
	}
}
