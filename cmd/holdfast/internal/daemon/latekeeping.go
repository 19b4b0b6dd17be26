package daemon

import (
	"context"
	"slices"
)

// awaitHolder waits until a holder that was silent at the start answers, and tells run.
func (d *daemon) awaitHolder(ctx context.Context) {
	d.keep.await(ctx)
	select {
	case d.answered <- struct{}{}:
	case <-ctx.Done():
	}
}

// keepLate gives the holder what it should have, and takes out what went while it was
// silent.
func (d *daemon) keepLate(until context.Context) {
	if !d.keep.exists() {
		return
	}
	if err := d.keepGeneration(until, d.current); err != nil {
		d.log.Error("not kept when this process ends", "error", err.Error())
		return
	}
	needed := append(d.sockets.leaving.names(), stateName(d.current.number))
	for _, s := range d.sockets.inService {
		needed = append(needed, storedName(s))
	}
	d.keep.drop(until, func(name string) bool { return isOurs(name) && !slices.Contains(needed, name) })
	d.log.Info("kept when this process ends, from now on")
}
