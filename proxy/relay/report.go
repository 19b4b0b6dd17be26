package relay

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// A loop never writes a log: whoever reads it may be slow, and every connection
// of the loop would wait. It leaves a note, and one goroutine writes; notes that
// find no room are counted and dropped.

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

// event is something that happened to the relay rather than to one connection.
type event struct {
	kind     eventKind
	listener string
	socket   string
	upstream string
	server   string
	client   netip.AddrPort
	err      error
}

type eventKind uint8

const (
	acceptFailed eventKind = iota
	starved
	noMemory
	dialFailed
	noServer
	badHeader
	eventKinds
)

// How each kind of event is logged.
var eventText = [eventKinds]struct {
	level slog.Level
	text  string
}{
	acceptFailed: {slog.LevelError, "cannot accept"},
	starved:      {slog.LevelWarn, "out of descriptors or memory: accepting pauses"},
	noMemory:     {slog.LevelError, "no memory for a buffer: connection reset"},
	dialFailed:   {slog.LevelDebug, "server not reached"},
	noServer:     {slog.LevelWarn, "no server could be reached: connection reset"},
	badHeader:    {slog.LevelWarn, "bad PROXY header: connection reset"},
}

const timedOut = unix.ETIMEDOUT

// report leaves a note of how a connection ended.
func (r *Relay) report(l *loop, p *pair, reason Reason) {
	if !r.reporting.Load() {
		return
	}
	e := End{
		Listener: p.service.Listener, Socket: p.socket.label, Upstream: p.service.Pool.Name(),
		Client: p.peer, Generation: p.service.Generation,
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

// say leaves a note of an event.
func (r *Relay) say(e event) {
	select {
	case r.events <- e:
	default:
	}
}

// write is the goroutine that logs. It ends when Close has stopped the loops,
// after what they left. An event that repeats is logged once a second, with how
// often it was left out.
func (r *Relay) write() {
	defer close(r.written)
	var last [eventKinds]time.Time
	var left [eventKinds]int
	for {
		select {
		case e, ok := <-r.ends:
			if !ok {
				return
			}
			r.options.OnEnd(e)
		case e := <-r.events:
			if time.Since(last[e.kind]) < time.Second {
				left[e.kind]++
				continue
			}
			r.log(e, left[e.kind])
			last[e.kind], left[e.kind] = time.Now(), 0
		}
	}
}

func (r *Relay) log(e event, left int) {
	text := eventText[e.kind]
	attrs := make([]slog.Attr, 0, 8)
	for _, a := range []struct{ key, value string }{
		{"listener", e.listener}, {"socket", e.socket}, {"upstream", e.upstream}, {"server", e.server},
	} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.key, a.value))
		}
	}
	if e.client.IsValid() {
		attrs = append(attrs, slog.String("client", e.client.String()))
	}
	if e.err != nil {
		attrs = append(attrs, slog.String("error", e.err.Error()))
	}
	if left > 0 {
		attrs = append(attrs, slog.Int("repeated", left))
	}
	r.options.Log.LogAttrs(context.Background(), text.level, text.text, attrs...)
}
