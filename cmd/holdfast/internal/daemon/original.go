package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/handover"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
)

// original is this instance as its replacement sees it. The methods are called by the
// server of the handover socket, one after the other, and do their work in the
// goroutine of run.
type original struct {
	d *daemon

	// lent is set when connections are; of the server's session. From then on it matters
	// whether this instance has let go of them.
	lent *atomic.Bool
}

// offering is what has been done for a replacement that has not taken over yet.
type offering struct {
	active bool // the sockets are lent: none may be opened or closed
	paused bool // the replacement accepts, and this instance does not
	over   time.Duration
	legacy *sock.FD
	lent   func()         // takes the vault's files back, which are in use here; nil = they are not lent
	left   []fdstore.Held // copies of them, for who goes on when this instance has let go
	letGo  bool
	by     int // number of the process that has taken over; 0 = none, or it is not to be seen from here
}

// Sockets implements [handover.Original]. Those that leave already are not among
// them: this instance serves their queues to the end.
func (o original) Sockets() (list []handover.Socket, err error) {
	ok := o.d.call(func() {
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
	if !ok {
		return nil, errStopping
	}
	return list, nil
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

// Connections implements [handover.Original]. What comes from now on is not kept: it
// would be missing in what is lent.
func (o original) Connections() (list []handover.Socket, err error) {
	ok := o.d.call(func() {
		if o.d.live.vault == nil && len(o.d.live.left) == 0 {
			return
		}
		if o.d.offering.left, o.d.offering.lent, err = o.d.live.lend(); err != nil {
			return // there would be no way back
		}
		o.d.engine.SetKeeping(false)
		for _, f := range o.d.offering.left {
			list = append(list, handover.Socket{Label: handover.Label{Name: f.Name}, FD: f.FD.Raw()})
		}
	})
	if !ok {
		err = errStopping
	}
	o.lent.Store(err == nil && len(list) > 0)
	return list, err
}

// errGivenUp is why a replacement that this instance has started does not take over: it is
// being ended.
var errGivenUp = errors.New("it has taken too long, and is ended")

// LetGo implements [handover.Original]. Who drains lets go, too, as long as there is
// something left.
func (o original) LetGo(successor sock.Peer) error {
	if !o.d.upgrading.enter(successor.PID) {
		return errGivenUp
	}
	letGo := func() {
		if o.d.offering.lent == nil {
			return
		}
		o.d.live.letGo(o.d.engine)
		o.d.offering.lent()
		o.d.offering.lent, o.d.offering.letGo = nil, true
	}
	if o.d.call(letGo) || !o.lent.Load() || o.d.callLast(letGo) {
		return nil
	}
	o.d.upgrading.leave()
	return errStopping
}

// Shutdown implements [handover.Original].
func (o original) Shutdown(successor sock.Peer) {
	o.d.upgrading.pass(successor.PID)
	o.d.call(func() { o.d.succeeded, o.d.offering.by = true, successor.PID })
}

// Abandoned implements [handover.Original].
func (o original) Abandoned() {
	o.d.upgrading.leave()
	o.d.call(func() {
		was := o.d.offering
		o.d.offering = offering{}
		if was.legacy != nil {
			_ = was.legacy.Close()
		}
		if was.lent != nil {
			was.lent()
		}
		if was.letGo {
			o.d.live.left, was.left = was.left, nil
		}
		closeHeld(was.left)
		o.d.openConnections(o.d.current)
		o.d.live.goOn(o.d.engine)
		if was.paused {
			o.d.engine.Resume()
			o.d.reopenAsks()
		}
		o.d.entrustConnections(o.d.until, o.d.current)
	})
	o.lent.Store(false)
}

// stepBack leaves the service to the process that has taken over.
func (d *daemon) stepBack() {
	d.handsOn.Store(true)
	d.tellMainPID(d.offering.by)
	d.unwatch()
	if d.offering.legacy != nil {
		_ = d.offering.legacy.Close()
	}
}
