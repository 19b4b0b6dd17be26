package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// Takeover says whether a start takes over from an instance that runs.
type Takeover string

// The values of Takeover.
const (
	TakeoverAuto   Takeover = "auto"   // if somebody answers at the handover socket
	TakeoverAlways Takeover = "always" // it does, or fails
	TakeoverNever  Takeover = "never"
)

const (
	// helloPatience is how long a running instance may take to answer at all. Who is
	// silent for that long is taken for hung.
	helloPatience = 5 * time.Second

	// stepPatience is how long a killed process may take to end, and another replacement
	// to give up.
	stepPatience = 30 * time.Second

	// alonePatience is how long it may take to stop accepting, and to let go for good: it
	// has nothing else to do then.
	alonePatience = 10 * time.Second

	// endPatience is how long an instance may take to be gone that has ended the session.
	endPatience = 2 * time.Second
)

// requestPatience is how long an instance that answers may take for one request: it may be
// at a reload, which waits for its manager and for names. Tests set it.
var requestPatience = 2 * time.Minute

// trial is how long a replacement serves alone before the original lets go for good,
// which waits ten seconds for that. Tests set it.
var trial = time.Second

// takeover is what a start gets from a running process.
//
//	meet ──► prepare, commit: both accept ──► complete: the other one does not ──► keep
//	            └──────── anything wrong: giveUp, and the other one goes on ──┘
type takeover struct {
	predecessor
	from       string // "process 12 (holdfast)"
	hung       bool   // it serves nobody any more
	units, own *activation.Source
	legacy     legacy
	stored     []fdstore.Held // what the holder has of it already; not closed here
	inputs     config.Inputs  // what is to be served
}

// dismiss leaves the other process alone.
func (t *takeover) dismiss() {
	t.giveUp()
	t.close()
}

// close closes what nobody has acquired. It does nothing for nil.
func (t *takeover) close() {
	if t != nil {
		_ = errors.Join(t.units.Close(), t.own.Close())
	}
}

// takeOver makes a generation of what a running process has, and puts it into service
// in its place. After an error that one goes on as it was, or is gone if it hung.
func (d *daemon) takeOver(t *takeover, passed ...*activation.Source) error {
	d.kept, d.onTrial, d.tookOver = t.legacy.kept, true, t.from
	g, err := d.prepareOver(t, passed)
	if err != nil {
		t.giveUp()
		return err
	}
	d.engine.SetDown(t.legacy.Down)
	d.engine.Expect(t.legacy.Active)
	if g.config.Global.Keep == config.KeepConnections {
		d.engine.ResetAtDeath(true) // up to keepConnections
	}
	d.reserve(t.legacy.Connections, 0) // so far; it is known when they are lent
	if t.hung {
		d.engine.Hold() // its clients count before others are accepted
	}
	if _, err := d.commit(g); err != nil {
		t.giveUp()
		d.unserve()
		return err
	}
	left, err := t.complete(d.until, spread(g.config.Global.DrainTimeout), d.beginTrial)
	if err != nil {
		return d.withdraw(t, fmt.Errorf("take over from %s: %w", t.from, err))
	}
	d.onTrial = false
	d.live.left, d.live.since = left.vault, left.since
	keeping := context.WithoutCancel(d.until) // from now on a stop is one of the instance
	d.keepConnections(keeping, g)
	// Not before: who dies on trial must not leave a socket with the holder that the
	// original has never had.
	d.keepIfPossible(keeping, g)
	d.watch()
	d.inheritHandover(left.handover)
	plans := d.leftoverPlans(g) // closes the control socket of one that was killed, whose address is wanted next
	d.reopenAsks()
	d.serveLeftovers(plans)
	return nil
}

// inheritHandover goes on with the handover socket, if there is one and the configuration
// has it at the same path.
func (d *daemon) inheritHandover(socket *sock.Listener) {
	switch {
	case socket == nil:
	case socket.Addr().Path != d.current.config.Global.HandoverSocket:
		_ = socket.Close()
	default:
		one := newAsked(socket.Addr().Path, socket, d.serveHandover)
		d.current.asks.handover = one
		d.serveAsk(one)
	}
}

// prepareOver is prepare without the asks, whose addresses the other process has.
func (d *daemon) prepareOver(t *takeover, passed []*activation.Source) (*generation, error) {
	g, err := newGeneration(t.legacy.Number+1, t.inputs)
	if err != nil {
		return nil, err
	}
	if g.got, err = d.acquire(wants(g.config), append(passed, t.units, t.own)); err != nil {
		return nil, err
	}
	return g, d.startEngine(g)
}

// spread is over what time an original is to end its connections.
func spread(drain config.Timeout) time.Duration {
	const forever = 1 << 32 * time.Second // the connections end by themselves
	if drain.Never {
		return forever
	}
	return drain.Duration
}
