package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/handover"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

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
	if errors.Is(err, handover.ErrHung) {
		return nil, hungError{err} // the rest of it does, behind who answers
	} else if err != nil {
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
	t.predecessor = session{s, d.log, slices.ContainsFunc(t.legacy.Stored, vault.IsName), d.lead}
	t.stored = t.legacy.storedOf(d.keep.identity(), t.own.Offers)
	return t, nil
}

// errHolderHas is why a replacement does not succeed a process that has died: the next one
// that the holder starts has its connections. A connection must not have two owners.
var errHolderHas = errors.New("its connections are with who keeps them, for the process that is started in its place")

// session is a handover with an instance that answers.
type session struct {
	*handover.Session
	log  *slog.Logger
	held bool // a holder keeps its connections
	lead func(ctx context.Context) error
}

// giveUp implements predecessor.
func (s session) giveUp() { _ = s.Close() }

// complete implements predecessor: the original stops. When it is gone, or hangs and is
// ended, that comes to the same.
func (s session) complete(ctx context.Context, over time.Duration, onTrial func([]fdstore.Held)) (left inheritance, err error) {
	left, err = s.tryAlone(ctx, over, onTrial)
	switch {
	case err == nil || ctx.Err() != nil || s.Process() == nil:
	case errors.Is(err, handover.ErrGone):
		// It may have lost patience with this process, and accept again.
		wait, cancel := context.WithTimeout(ctx, endPatience)
		defer cancel()
		switch {
		case s.Process().Wait(wait) != nil:
		case s.held:
			err = errors.Join(err, errHolderHas)
		default:
			err = nil
		}
	case errors.Is(err, handover.ErrHung) && s.held:
		if endErr := end(s.Process()); endErr != nil {
			err = errors.Join(err, endErr)
		} else {
			err = errors.Join(err, errHolderHas)
		}
	case errors.Is(err, handover.ErrHung):
		if leadErr := s.lead(ctx); leadErr != nil {
			s.log.Warn("the service manager does not know that this is the main process", "error", leadErr.Error())
		}
		left.since = time.Now()
		left.vault, err = robAndEnd(ctx, s.Process(), left.vault, s.log)
	}
	if err != nil {
		closeHeld(left.vault)
		return inheritance{}, err
	}
	_ = s.Close()
	return left, nil
}

// tryAlone serves alone for a moment before the original lets go for good. After an error
// there may be what the original has left all the same.
func (s session) tryAlone(ctx context.Context, over time.Duration, onTrial func([]fdstore.Held)) (left inheritance, err error) {
	step, cancel := context.WithTimeout(ctx, alonePatience)
	defer cancel()
	if err := s.BeginDrainingConnections(step, over); err != nil {
		return left, err
	}
	lent, err := s.SendConnections(step)
	switch {
	case err == nil:
		for _, f := range lent {
			left.vault = append(left.vault, fdstore.Held{Name: f.Name, FD: f.FD})
		}
	case errors.Is(err, handover.ErrRefused):
		s.log.Warn("connections stay where they are, and end there", "error", err.Error())
	default:
		return left, err
	}
	onTrial(left.vault)
	select {
	case <-time.After(trial):
	case <-ctx.Done():
		return left, ctx.Err()
	}
	// Also when this process is to stop: who has asked the original to let go, and does not
	// hear whether it has, can leave the service to nobody.
	step, cancel = context.WithTimeout(context.WithoutCancel(ctx), alonePatience)
	defer cancel()
	left.since = time.Now()
	left.handover, err = s.ShutdownOriginalNode(step)
	return left, err
}
