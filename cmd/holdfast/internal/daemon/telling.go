package daemon

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/holdfast-proxy/holdfast/systemd"
)

// telling passes messages to the service manager, one after the other. Who tells does
// not wait: a manager that is busy, or hangs, stops nothing here.
type telling struct {
	log    *slog.Logger
	queue  chan func() error // nil = nobody asked to be told
	hushed atomic.Bool
	last   chan struct{} // closed when the last message has returned; nil = none must get there
	ended  chan struct{}
}

// Messages come every few seconds, and each waits some seconds for a place in the
// manager's queue: with that many waiting it has been away for minutes.
const mostUntold = 64

// farewell is how long the end waits for the manager to take what is to be told yet.
const farewell = 5 * time.Second

func newTelling(notify *systemd.Notifier, log *slog.Logger) *telling {
	t := &telling{log: log, ended: make(chan struct{})}
	if notify == nil {
		return t
	}
	t.queue = make(chan func() error, mostUntold)
	go t.run()
	return t
}

func (t *telling) run() {
	defer close(t.ended)
	last := ""
	for message := range t.queue {
		reason := ""
		if err := message(); err != nil {
			reason = err.Error()
		}
		if reason != "" && reason != last { // there are messages every few seconds
			t.log.Warn("cannot notify the service manager", "error", reason)
		}
		last = reason
	}
}

// tell has a message sent after those before it.
func (t *telling) tell(message func() error) {
	if t.queue == nil || t.hushed.Load() {
		return
	}
	select {
	case t.queue <- message:
	default:
		t.log.Warn("the service manager is not told: it has not read for long")
	}
}

// hush has nothing told any more: another process speaks for the service.
func (t *telling) hush() { t.hushed.Store(true) }

// finish has one message sent that must get to the manager, and nothing after it. What
// waits to be told is dropped: it is old then. message itself bounds how long it takes,
// and close waits for it.
func (t *telling) finish(message func() error) {
	t.hush()
	if t.queue == nil {
		return
	}
	for len(t.queue) > 0 {
		select {
		case <-t.queue:
		default: // it was sent just now
		}
	}
	last := make(chan struct{})
	t.last = last
	t.queue <- func() error { // there is room, or soon: who has not seen the hush yet adds one
		defer close(last)
		return message()
	}
}

// close sends what is left, as far as the manager takes it soon, but for the last message,
// which must get there. Nothing may be told after it.
func (t *telling) close() {
	if t.queue == nil {
		return
	}
	close(t.queue)
	if t.last != nil {
		<-t.last
	}
	select {
	case <-t.ended:
	case <-time.After(farewell):
	}
}
