package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/systemd"
)

// capacity asks how many descriptors the store of a holder takes.
type capacity func(context.Context) (int, error)

// capacityOfUnit asks systemd, for which daemon-reload may have changed it.
func capacityOfUnit(ctx context.Context) (int, error) {
	unit, err := systemd.AskUnit(ctx)
	return max(0, min(unit.StoreMax, unit.SoftFiles-spareFiles)), err
}

// measureEvery is how often the store is measured at most while there is no room.
const measureEvery = time.Minute

// followCapacity measures the store when something had no room there, until ctx ends. What
// had none is tried again anyway. It and [daemon.Reload] are all who measure: who is asked
// may be slow, or hang, and the goroutine of run never waits for him.
func (k *keeping) followCapacity(ctx context.Context) {
	for {
		select {
		case <-k.full:
		case <-ctx.Done():
			return
		}
		k.measure(ctx)
		select {
		case <-time.After(measureEvery):
		case <-ctx.Done():
			return
		}
	}
}

// measure resizes the store to what it takes by now. It may take as long as askPatience.
func (k *keeping) measure(ctx context.Context) {
	store := k.store.Load()
	if k.capacity == nil || store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	now, err := k.capacity(ctx)
	if err != nil || now == 0 {
		return
	}
	if before := store.Max(); now != before {
		k.log.Info("the size of the store has changed", "places", now, "before", before)
	}
	store.Resize(now)
}

// hasGrown tells whether the store takes more by now than when it gave err.
func (k *keeping) hasGrown(ctx context.Context, err error) bool {
	full, ok := ofPlaces(err)
	if !ok {
		return false
	}
	k.measure(ctx)
	store := k.store.Load()
	return store != nil && store.Max() > full.Max
}

// noteFull has the store measured soon if err says that it has no place. It returns err.
func (k *keeping) noteFull(err error) error {
	if _, ok := ofPlaces(err); ok {
		ask(k.full)
	}
	return err
}

// ofPlaces tells the errors that a larger store would not give.
func ofPlaces(err error) (full *fdstore.FullError, ok bool) {
	ok = errors.As(err, &full) && full.NameBytes == 0
	return full, ok
}
