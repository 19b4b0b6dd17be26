package daemon

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/handover"
	"github.com/holdfast-proxy/holdfast/activation/pidfd"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// hungError is that an instance does not answer at all.
type hungError struct{ error }

func (e hungError) Unwrap() error { return e.error }

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
