package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/handover"
	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// meet looks for a running instance at the handover socket. It gives nil when there is
// none, or it is not to be taken over from.
func (d *daemon) meet(mode Takeover, inputs config.Inputs, unread error, kept kept) (*takeover, error) {
	if mode != TakeoverAuto && mode != TakeoverAlways {
		return nil, nil
	}
	cfg, err := parse(inputs, unread)
	if err != nil && mode == TakeoverAlways {
		return nil, err
	}
	t, err := d.meetAt(handoverPath(cfg, kept))
	switch {
	case err == nil:
		return d.consider(t, mode)
	case mode == TakeoverAlways || errors.Is(err, context.Canceled):
		return nil, err
	case !errors.Is(err, handover.ErrNobody):
		d.log.Warn("cannot take over", "error", err.Error()) // it may have nothing that this one needs
	}
	return nil, nil
}

// consider finds out whether the configuration is one to take over with: it must be good,
// and want at least one of the sockets, as two services that share the default path are
// not to end each other. It is read now: the running instance takes no other any more,
// and a reload of it may have been waited for.
func (d *daemon) consider(t *takeover, mode Takeover) (*takeover, error) {
	inputs, unread := d.source.Read(d.until)
	cfg, err := parse(inputs, unread)
	if err != nil {
		t.dismiss()
		return nil, err
	}
	if mode == TakeoverAuto && !activation.Wanted(wants(cfg), t.units, t.own) {
		t.dismiss()
		d.log.Warn("not taking over: no listener of the configuration is among the sockets", "instance", t.from)
		return nil, nil
	}
	t.inputs = inputs
	d.log.Info("taking over", "from", t.from, "sockets", len(t.units.Offers)+len(t.own.Offers))
	return t, nil
}

func parse(inputs config.Inputs, unread error) (*config.Config, error) {
	if unread != nil {
		return nil, unread
	}
	return inputs.Parse()
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

// mostDismissals is how often a running instance may close the connection before it has said
// anything: so it does when many have connected at once.
const mostDismissals = 3

func (d *daemon) meetAt(path string) (*takeover, error) {
	deadline := time.Now().Add(stepPatience)
	for dismissals := 0; ; {
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
		again := errors.Is(err, handover.ErrBusy)
		if errors.Is(err, handover.ErrGone) {
			dismissals++
			again = dismissals < mostDismissals
		}
		if !again || time.Now().After(deadline) {
			return nil, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-d.until.Done():
			return nil, d.until.Err()
		}
	}
}
