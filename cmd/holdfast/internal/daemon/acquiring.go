package daemon

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
)

// acquire gets the sockets of listeners, all of them or none. An address that was given
// up only just now is waited for.
func (d *daemon) acquire(wants []activation.Want, sources []*activation.Source) (*activation.Result, error) {
	again := time.NewTicker(lateClose / 20)
	defer again.Stop()
	started := time.Now()
	for {
		got, err := d.sockets.acquire(wants, sources)
		if err == nil || !errors.Is(err, unix.EADDRINUSE) || !time.Now().Before(d.sockets.leaving.freeBy(started)) {
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

// acquireRest is activation.AcquireRest likewise. Nothing is waited for.
func (h *holding) acquireRest(wants []activation.Want, sources []*activation.Source) (*activation.Result, activation.AcquireError) {
	h.leaving.mu.Lock()
	defer h.leaving.mu.Unlock()
	return activation.AcquireRest(wants, h.all(), sources, h.leaving.listeners()...)
}
