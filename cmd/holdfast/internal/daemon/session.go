package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/handover"
	"github.com/holdfast-proxy/holdfast/activation/sock"
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
	next, err := d.tryAlone(ctx, s, over, onTrial)
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
	step, cancel := context.WithTimeout(ctx, alonePatience)
	defer cancel()
	if err := s.BeginDrainingConnections(step, over); err != nil {
		return nil, err
	}
	onTrial()
	select {
	case <-time.After(trial):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	step, cancel = context.WithTimeout(ctx, alonePatience)
	defer cancel()
	return s.ShutdownOriginalNode(step)
}
