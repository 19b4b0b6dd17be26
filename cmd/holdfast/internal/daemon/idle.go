package daemon

import (
	"time"

	"github.com/holdfast-proxy/holdfast/activation"
)

// idleWatch tells when the instance has had no connection for exit_idle. Its zero
// value never does.
type idleWatch struct {
	after    time.Duration
	look     *time.Ticker
	since    time.Time // of the first look that found nobody; zero while there is somebody
	accepted int64
}

// newIdleWatch watches where the config asks for it and every socket came from
// systemd, which starts the service again for the next client. Without that an
// exit would be an outage.
func (d *daemon) newIdleWatch() idleWatch {
	after := d.current.config.Global.ExitIdle
	if after == 0 {
		return idleWatch{}
	}
	for _, s := range d.sockets.inService {
		if s.Origin != activation.Systemd {
			d.log.Warn("exit_idle has no effect: not every socket came from systemd", "socket", s.Info.String())
			return idleWatch{}
		}
	}
	look := min(max(after/4, 10*time.Millisecond), time.Second)
	return idleWatch{after: after, look: time.NewTicker(look)}
}

// due is when to look again.
func (w *idleWatch) due() <-chan time.Time {
	if w.look == nil {
		return nil
	}
	return w.look.C
}

// over tells whether the time without a connection is up.
func (w *idleWatch) over(active, accepted int64) bool {
	if active > 0 || accepted != w.accepted {
		w.since, w.accepted = time.Time{}, accepted
		return false
	}
	if w.since.IsZero() {
		w.since = time.Now()
	}
	return time.Since(w.since) >= w.after
}

func (w *idleWatch) stop() {
	if w.look != nil {
		w.look.Stop()
	}
}
