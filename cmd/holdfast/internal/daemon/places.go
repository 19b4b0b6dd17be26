package daemon

import (
	"context"
	"errors"

	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/systemd"
)

// places asks how many descriptors the store of a holder takes.
type places func(context.Context) (int, error)

// placesOfUnit asks systemd, for which daemon-reload may have changed it.
func placesOfUnit(ctx context.Context) (int, error) {
	unit, err := systemd.AskUnit(ctx)
	return max(0, min(unit.StoreMax, unit.SoftFiles-spareFiles)), err
}

// inRoom pushes what needs room in the store, and does so again if that has become larger.
func (k *keeping) inRoom(ctx context.Context, store *fdstore.Store, push func() error) error {
	err := push()
	if errors.As(err, new(*fdstore.FullError)) && k.resize(ctx, store) {
		err = push()
	}
	return err
}

// resize tells whether a store takes more than it did.
func (k *keeping) resize(ctx context.Context, store *fdstore.Store) (larger bool) {
	if k.places == nil || store == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	now, err := k.places(ctx)
	if err != nil || now == 0 {
		return false
	}
	larger = now > store.Max()
	store.Resize(now)
	return larger
}
