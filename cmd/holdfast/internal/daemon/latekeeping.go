package daemon

import (
	"context"
	"slices"
)

// awaitHolder has everything kept when a holder that was silent at the start answers.
func (d *daemon) awaitHolder(ctx context.Context) {
	d.keep.await(ctx)
	d.call(d.keepLate)
}

// followKeeper has everything kept by the next keeper when one is gone.
func (d *daemon) followKeeper(ctx context.Context) {
	d.keep.client.Follow(ctx, func() {
		d.keep.renew()
		d.awaitHolder(ctx)
	})
}

// keepLate gives the holder what it should have, and takes out what went while it was
// silent.
func (d *daemon) keepLate() {
	if !d.keep.exists() {
		return
	}
	if err := d.keepGeneration(d.current); err != nil {
		d.log.Error("not kept when this process ends", "error", err.Error())
		return
	}
	needed := append(d.sockets.leaving.names(), stateName(d.current.number))
	for _, s := range d.sockets.inService {
		needed = append(needed, storedName(s))
	}
	d.keep.drop(d.until, func(name string) bool { return isOurs(name) && !slices.Contains(needed, name) })
	d.log.Info("kept when this process ends, from now on")
}
