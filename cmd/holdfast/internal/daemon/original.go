package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/handover"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// original is this instance as its replacement sees it. The methods are called by the
// server of the handover socket, one after the other, and do their work in the
// goroutine of run.
type original struct{ d *daemon }

// offering is what has been done for a replacement that has not taken over yet.
type offering struct {
	active bool // the sockets are lent: none may be opened or closed
	paused bool // the replacement accepts, and this instance does not
	over   time.Duration
	legacy *sock.FD
}

// Sockets implements [handover.Original]. Those that leave already are not among
// them: this instance serves their queues to the end.
func (o original) Sockets() (list []handover.Socket) {
	o.d.call(func() {
		o.d.offering.active = true
		for _, s := range o.d.sockets.all() {
			list = append(list, activation.ToHandover(s))
		}
		l, err := o.d.legacy()
		if err != nil {
			o.d.log.Warn("the replacement does not learn what generation it succeeds", "error", err.Error())
			return
		}
		o.d.offering.legacy = l
		list = append(list, handover.Socket{Label: handover.Label{Name: legacyName}, FD: l.Raw()})
	})
	return list
}

// BeginDraining implements [handover.Original].
func (o original) BeginDraining(_ context.Context, over time.Duration) error {
	ok := o.d.call(func() {
		o.d.engine.Pause()
		o.d.offering.paused, o.d.offering.over = true, over
		o.d.closeAsks()
	})
	if !ok && !o.d.handsOn.Load() {
		return errStopping
	}
	return nil // who stops does not accept any more, either
}

// Shutdown implements [handover.Original].
func (o original) Shutdown() {
	o.d.upgrading.pass()
	o.d.call(func() { o.d.succeeded = true })
}

// Abandoned implements [handover.Original].
func (o original) Abandoned() {
	o.d.call(func() {
		was := o.d.offering
		o.d.offering = offering{}
		if was.legacy != nil {
			_ = was.legacy.Close()
		}
		if was.paused {
			o.d.engine.Resume()
			o.d.reopenAsks()
		}
	})
}

// stepBack leaves the service to the process that has taken over.
func (d *daemon) stepBack() {
	d.handsOn.Store(true)
	if pid := d.upgrading.child(); pid != 0 && d.notify != nil {
		// Before this process may end: the manager would take that for the end of the service.
		d.tell(func() error {
			defer d.upgrading.done()
			ctx, cancel := context.WithTimeout(context.Background(), openPatience)
			defer cancel()
			return errors.Join(d.notify.MainPID(pid), d.notify.Barrier(ctx))
		})
	} else {
		d.upgrading.done()
	}
	d.telling.hush()
	d.unwatch()
	if d.offering.legacy != nil {
		_ = d.offering.legacy.Close()
	}
}
