package relay

import (
	"context"
	"log/slog"
	"net/netip"
	"time"
)

// event is something that happened to the relay, or to a connection without being
// its end.
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
	paused
	resumed
	noMemory
	cannotWatch
	dialFailed
	noServer
	badHeader
	notRestored
	eventKinds
)

// How each kind of event is logged.
var eventText = [eventKinds]struct {
	level slog.Level
	text  string
}{
	acceptFailed: {slog.LevelError, "cannot accept"},
	paused:       {slog.LevelWarn, "out of descriptors or memory: accepting pauses"},
	resumed:      {slog.LevelInfo, "descriptors and memory suffice again"},
	noMemory:     {slog.LevelError, "no memory for a buffer: connection reset"},
	cannotWatch:  {slog.LevelError, "no more epoll watches: connection reset"},
	dialFailed:   {slog.LevelDebug, "server not reached"},
	noServer:     {slog.LevelWarn, "no server could be reached: connection reset"},
	badHeader:    {slog.LevelWarn, "bad PROXY header: connection reset"},
	notRestored:  {slog.LevelError, "cannot go on with what another process has left: connection reset"},
}

// note leaves an event for the log.
func (r *Relay) note(e event) {
	select {
	case r.events <- e:
	default:
		r.unlogged.Add(1)
	}
}

// writeLog is the goroutine that logs. It ends when Close has stopped the loops,
// after what they left.
func (r *Relay) writeLog() {
	defer close(r.written)
	repeats := repeats{}
	var over <-chan time.Time // the second that began with the first of repeats
	for {
		select {
		case e, ok := <-r.ends:
			if !ok {
				r.logLastEvents(repeats)
				return
			}
			r.options.OnEnd(e)
		case e := <-r.events:
			if len(repeats) == 0 {
				over = time.After(time.Second)
			}
			if repeats.first(e) {
				r.log(e, 0)
			}
		case <-over:
			r.logRepeats(repeats)
		}
	}
}

// logRepeats says how often each event came again, and starts a new second.
func (r *Relay) logRepeats(repeats repeats) {
	for _, again := range repeats {
		if again.times > 0 {
			r.log(again.event, again.times)
		}
	}
	clear(repeats)
}

// logLastEvents writes what is left when the loops have stopped.
func (r *Relay) logLastEvents(repeats repeats) {
	for {
		select {
		case e := <-r.events:
			if repeats.first(e) {
				r.log(e, 0)
			}
		default:
			r.logRepeats(repeats)
			return
		}
	}
}

// subject is what events are alike in that are logged once a second.
type subject struct {
	kind                               eventKind
	listener, socket, upstream, server string
}

// repeats counts events of this second beyond the first of each subject.
type repeats map[subject]repeat

type repeat struct {
	event event
	times int
}

// mostSubjects bounds what is remembered; further subjects wait for a second.
const mostSubjects = 64

// first tells whether e is to be logged now, and counts it otherwise.
func (r repeats) first(e event) bool {
	s := subject{e.kind, e.listener, e.socket, e.upstream, e.server}
	again, known := r[s]
	if known {
		again.times++
		r[s] = again
		return false
	}
	if len(r) >= mostSubjects {
		return false
	}
	r[s] = repeat{event: e}
	return true
}

func (r *Relay) log(e event, repeated int) {
	text := eventText[e.kind]
	attrs := make([]slog.Attr, 0, 8)
	for _, a := range []struct{ key, value string }{
		{"listener", e.listener},
		{"socket", e.socket},
		{"upstream", e.upstream},
		{"server", e.server},
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
	if repeated > 0 {
		attrs = append(attrs, slog.Int("repeated", repeated))
	}
	r.options.Log.LogAttrs(context.Background(), text.level, text.text, attrs...)
}
