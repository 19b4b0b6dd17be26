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
