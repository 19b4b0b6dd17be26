package daemon

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
)

// lateClose is for how long an address that this instance has given up may be in use
// nevertheless: systemd closes what it was told to drop some time later.
const lateClose = 2 * time.Second

// acquire gets the sockets of listeners, all of them or none. An address that was given
// up only just now is waited for.
func (d *daemon) acquire(wants []activation.Want, sources []*activation.Source) (*activation.Result, error) {
	again := time.NewTicker(lateClose / 100)
	defer again.Stop()
	started := time.Now()
	for {
		got, err := d.sockets.acquire(wants, sources)
		if err == nil || !errors.Is(err, unix.EADDRINUSE) || !time.Now().Before(d.sockets.leaving.gone(started)) {
			return got, err
		}
		select {
		case <-again.C:
		case <-d.until.Done():
			return nil, d.until.Err()
		}
	}
}

// acquire is activation.Acquire on what the instance holds. No socket is closed
// meanwhile.
func (h *holding) acquire(wants []activation.Want, sources []*activation.Source) (*activation.Result, error) {
	h.leaving.mu.Lock()
	defer h.leaving.mu.Unlock()
	return activation.Acquire(wants, h.all(), sources, h.leaving.listeners()...)
}

// acquireRest is acquire without the addresses that cannot be had, of which missing
// tells. The error is that of acquire, or missing when nothing at all is left.
func (d *daemon) acquireRest(wants []activation.Want, sources []*activation.Source) (got *activation.Result, missing severalError, err error) {
	named := make(map[string]bool)
	for {
		got, err = d.acquire(wants, sources)
		var these activation.AcquireError
		if !errors.As(err, &these) {
			return got, missing, err
		}
		for _, one := range these {
			if errors.Is(one, activation.ErrNoSocket) && named[one.Listener] {
				continue // of all its addresses that is said already
			}
			named[one.Listener] = true
			missing = append(missing, one)
		}
		if wants = these.Without(wants); len(wants) == 0 {
			return nil, nil, missing
		}
	}
}
