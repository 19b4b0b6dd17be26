package daemon

import (
	"context"
	"slices"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// awaitHolder has everything kept when a holder that was silent at the start, or had no
// room for anything, keeps something.
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

// tellHolder logs that the keeper is gone, once. Of the next one keepLate tells.
func (d *daemon) tellHolder() {
	gone := d.keep.client != nil && d.keep.holder() == status.HolderNone
	if gone && !d.keeperGone {
		d.log.Warn("not kept when this process ends, for now", "reason", "the keeper is gone: start holdfast keep again")
	}
	d.keeperGone = gone
}

// keepLate gives the holder what it should have, and takes out what went while it was
// silent. While another process is taking over, which may be the holder's by then, and has
// the connections, it is put off.
func (d *daemon) keepLate() {
	if d.offering.active {
		d.unkept = true
		d.live.unheld.Store(true)
		return
	}
	d.keepConnections(d.until, d.current)
	if !d.keep.exists() {
		return
	}
	needed := d.sockets.leaving.names()
	for _, s := range d.sockets.inService {
		needed = append(needed, storedName(s))
	}
	d.keep.drop(d.until, func(name string) bool { return sock.IsStoreName(name) && !slices.Contains(needed, name) })
	kept := d.keepIfPossible(d.until, d.current)
	if kept && !d.live.unheld.Load() {
		d.log.Info("kept when this process ends, from now on")
	}
}

// await returns when a holder keeps something that did not, or ctx ends.
func (k *keeping) await(ctx context.Context) {
	for patience := openPatience; ctx.Err() == nil; patience = min(2*patience, keepPatience) {
		attempt, cancel := context.WithTimeout(ctx, patience)
		err := k.open(attempt)
		if err != nil {
			<-attempt.Done() // it may have said so at once
		}
		cancel()
		if err == nil {
			return
		}
	}
}

// renew begins anew with a keeper that has nothing.
func (k *keeping) renew() {
	k.store.Store(nil)
	k.silent.Store(true)
	k.untried.Store(k.renewed())
}
