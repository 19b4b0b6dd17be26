package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/handover"
	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/proxy"
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

	// requestPatience is how long an instance that answers may take for one request: it
	// may be at a reload, which waits for its manager and for names.
	requestPatience = 2 * time.Minute

	// endPatience is how long an instance may take to be gone that has ended the session.
	endPatience = 2 * time.Second
)

// hungError is that an instance does not answer at all.
type hungError struct{ error }

func (e hungError) Unwrap() error { return e.error }

// trial is how long a replacement serves alone before the original lets go for good,
// which waits ten seconds for that. Tests set it.
var trial = time.Second

// takeover is what a start gets from a running process, and how it ends that one's part.
//
//	meet ──► prepare, keep, commit: both accept ──► complete: the other one does not
//	            └──────────── anything wrong: giveUp, and the other one goes on ──┘
type takeover struct {
	from       string // "process 12 (holdfast)"
	units, own *activation.Source
	legacy     legacy
	stored     []fdstore.Held // what the holder has of it already; not closed here

	// complete ends the other one's part when this process accepts. next is the handover
	// socket, if it passes one on. Its connections have that long to end.
	complete func(ctx context.Context, over time.Duration, onTrial func()) (next *sock.Listener, err error)
	giveUp   func()
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

// meet looks for a running instance at the handover socket. It gives nil when there is
// none, or it is not to be taken over from: what could be read of the configuration must
// be good, and want at least one of its sockets. Two services that share the default
// path are not to end each other.
func (d *daemon) meet(mode Takeover, inputs config.Inputs, unread error, kept kept) (*takeover, error) {
	if mode != TakeoverAuto && mode != TakeoverAlways {
		return nil, nil
	}
	cfg, err := inputs.Parse()
	if unread != nil {
		err = unread
	}
	if err != nil && mode == TakeoverAlways {
		return nil, err
	}
	t, meetErr := d.meetAt(handoverPath(cfg, kept))
	switch {
	case meetErr == nil && err != nil:
		t.dismiss()
		return nil, err
	case meetErr == nil && mode == TakeoverAuto && !activation.Wanted(wants(cfg), t.units, t.own):
		t.dismiss()
		d.log.Warn("not taking over: no listener of the configuration is among the sockets", "instance", t.from)
	case meetErr == nil:
		d.log.Info("taking over", "from", t.from, "sockets", len(t.units.Offers)+len(t.own.Offers))
		return t, nil
	case mode == TakeoverAlways || errors.Is(meetErr, context.Canceled):
		return nil, meetErr
	case !errors.Is(meetErr, handover.ErrNobody):
		d.log.Warn("cannot take over", "error", meetErr.Error()) // it may have nothing that this one needs
	}
	return nil, nil
}

// handoverPath is where a running instance would answer. Without a configuration it is
// that of the one before, or the default.
func handoverPath(cfg *config.Config, kept kept) string {
	if cfg == nil {
		cfg, _ = kept.Current.Inputs.Parse()
	}
	if cfg == nil {
		return config.DefaultGlobal(os.Environ()).HandoverSocket
	}
	return cfg.Global.HandoverSocket
}

func (d *daemon) meetAt(path string) (*takeover, error) {
	deadline := time.Now().Add(stepPatience)
	for {
		s, err := handover.Dial(path)
		if err != nil {
			return nil, err
		}
		t, err := d.greet(s)
		if err == nil {
			return t, nil
		}
		if errors.As(err, new(hungError)) && s.Process() != nil && d.until.Err() == nil {
			t, seizeErr := d.seize(s)
			if seizeErr == nil {
				return t, nil
			}
			err = fmt.Errorf("%w: %w", err, seizeErr)
		}
		_ = s.Close()
		if !errors.Is(err, handover.ErrBusy) || time.Now().After(deadline) {
			return nil, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-d.until.Done():
			return nil, d.until.Err()
		}
	}
}

// greet gets the sockets of an instance that answers.
func (d *daemon) greet(s *handover.Session) (*takeover, error) {
	hello, cancel := context.WithTimeout(d.until, helloPatience)
	defer cancel()
	if _, err := s.Hello(hello, d.version); errors.Is(err, handover.ErrHung) {
		return nil, hungError{err}
	} else if err != nil {
		return nil, err
	}
	step, cancel := context.WithTimeout(d.until, requestPatience)
	defer cancel()
	got, err := s.SendListeningSockets(step)
	if err != nil {
		return nil, err
	}
	t := &takeover{from: "the running instance"}
	if p := s.Process(); p != nil {
		t.from = p.String()
	}
	var others []handover.Received
	t.units, t.own, others = activation.FromHandover(got)
	for _, o := range others {
		if o.Name == legacyName {
			t.legacy = d.readLegacy(o.FD)
		}
		_ = o.FD.Close()
	}
	t.stored = t.legacy.storedOf(holderIdentity(d.notify), t.own.Offers)
	t.complete = func(ctx context.Context, over time.Duration, onTrial func()) (*sock.Listener, error) {
		next, err := d.completeSession(ctx, s, over, onTrial)
		if err == nil {
			_ = s.Close()
		}
		return next, err
	}
	t.giveUp = func() { _ = s.Close() }
	return t, nil
}

// completeSession has the original stop. When it is gone, or hangs and is ended, that
// comes to the same.
func (d *daemon) completeSession(ctx context.Context, s *handover.Session, over time.Duration, onTrial func()) (*sock.Listener, error) {
	step, cancel := context.WithTimeout(ctx, stepPatience)
	defer cancel()
	next, err := d.tryAlone(step, s, over, onTrial)
	switch {
	case err == nil || ctx.Err() != nil:
		return next, err
	case s.Process() == nil:
		return nil, err
	case errors.Is(err, handover.ErrGone):
		// It may have lost patience with this process, and accept again.
		wait, cancel := context.WithTimeout(ctx, endPatience)
		defer cancel()
		if s.Process().Wait(wait) != nil {
			return nil, err
		}
		return nil, nil
	case errors.Is(err, handover.ErrHung):
		return nil, end(s.Process())
	}
	return nil, err
}

// tryAlone serves alone for a moment before the original lets go for good.
func (d *daemon) tryAlone(ctx context.Context, s *handover.Session, over time.Duration, onTrial func()) (*sock.Listener, error) {
	if err := s.BeginDrainingConnections(ctx, over); err != nil {
		return nil, err
	}
	onTrial()
	select {
	case <-time.After(trial):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.ShutdownOriginalNode(ctx)
}

// seize takes the sockets out of an instance that does not answer. It is killed when
// this one serves.
func (d *daemon) seize(s *handover.Session) (*takeover, error) {
	p := s.Process()
	ctx, cancel := context.WithTimeout(d.until, stepPatience)
	defer cancel()
	found, err := p.ListeningSockets(ctx)
	if err != nil && !errors.Is(err, pidfd.ErrExited) {
		return nil, err
	}
	t := &takeover{from: p.String(), units: &activation.Source{}, own: &activation.Source{Origin: activation.Pidfd}}
	for _, f := range found {
		if f.Info.Addr.Network == "unixpacket" { // the handover socket
			_ = f.FD.Close()
			continue
		}
		t.own.Offers = append(t.own.Offers, activation.Offer{FD: f.FD})
	}
	t.complete = func(context.Context, time.Duration, func()) (*sock.Listener, error) {
		d.log.Warn("the running instance does not answer: it is killed", "instance", t.from)
		err := end(p)
		if err == nil {
			_ = s.Close()
		}
		return nil, err
	}
	t.giveUp = func() { _ = s.Close() }
	return t, nil
}

// end kills a process that does not answer any more and waits until it is gone.
func end(p *pidfd.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepPatience)
	defer cancel()
	if err := p.Signal(unix.SIGKILL); err != nil && !errors.Is(err, pidfd.ErrExited) {
		return err
	}
	return p.Wait(ctx)
}

// takeOver makes a generation of what a running process has, and puts it into service
// in its place. After an error that one is as it was.
func (d *daemon) takeOver(t *takeover, inputs config.Inputs, passed ...*activation.Source) error {
	d.kept, d.onTrial, d.tookOver = t.legacy.Kept, true, t.from
	g, err := d.prepareOver(t, inputs, passed)
	if err != nil {
		t.giveUp()
		return err
	}
	if _, err := d.commit(g); err != nil {
		t.giveUp()
		return err
	}
	next, err := t.complete(d.until, spread(g.config.Global.DrainTimeout), d.reopenAsks)
	if err != nil {
		d.engine.Pause()
		d.closeAsks()
		t.giveUp()
		d.withdraw(g)
		return fmt.Errorf("take over from %s: %w", t.from, err)
	}
	d.onTrial = false
	// Not before: who dies on trial must not leave a socket with the holder that the
	// original has never had.
	d.keepIfPossible(g)
	d.watch()
	if next != nil && next.Addr().Path == g.config.Global.HandoverSocket {
		next := &asked{at: next.Addr().Path, socket: next, serve: d.serveHandover, closed: make(chan struct{})}
		d.current.asks.handover = next
		d.serveAsk(next)
	} else if next != nil {
		_ = next.Close() // the configuration names another path
	}
	plans := d.leftoverPlans(g.got) // closes the control socket of one that was killed, whose address is wanted next
	d.reopenAsks()
	d.serveLeftovers(plans)
	return nil
}

// prepareOver is prepare without the asks, whose addresses the other process has.
func (d *daemon) prepareOver(t *takeover, inputs config.Inputs, passed []*activation.Source) (*generation, error) {
	g, err := newGeneration(t.legacy.Kept.Current.Number+1, inputs)
	if err != nil {
		return nil, err
	}
	if g.got, err = d.acquire(wants(g.config), append(passed, t.units, t.own)); err != nil {
		return nil, err
	}
	if err := d.startEngine(g); err != nil {
		return nil, errors.Join(err, d.abandon(g))
	}
	return g, nil
}

// withdraw ends what had begun, when the other process goes on with the sockets: it
// leaves them, and gives the clients that were accepted here their time.
func (d *daemon) withdraw(g *generation) {
	d.handsOn.Store(true)
	d.telling.hush() // the service goes on
	g.got.Retire()
	drain, over := d.drain(g.config.Global.DrainTimeout, nil)
	defer over()
	d.engine.Stop(drain, proxy.Ending{Leave: true})
	d.serving.Wait()
}

// spread is over what time an original is to end its connections.
func spread(drain config.Timeout) time.Duration {
	const forever = 1 << 32 * time.Second // the connections end by themselves
	if drain.Never {
		return forever
	}
	return drain.Duration
}
