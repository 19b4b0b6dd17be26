package fdstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

// The life of a service that counts how often it was started, and the next one.
func Example() {
	// Under systemd the manager is what systemd.NotifierFromEnv gives, and held comes
	// with LISTEN_FDS.
	manager, err := storetest.New("@fdstore-example", 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close()
	for range 3 {
		if err := serve(manager.Notifier(), manager.Pass()); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// start 1, kept: [state/1]
	// start 2, kept: [state/2]
	// start 3, kept: [state/3]
}

func serve(notify fdstore.Manager, held []fdstore.Held) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	back := fdstore.Reconcile(held, func(name string) bool { return strings.HasPrefix(name, "state/") })
	store, err := fdstore.Open(ctx, notify, back, fdstore.Options{Max: 10}) // $FDSTORE
	if errors.Is(err, fdstore.ErrNoStore) {
		fmt.Println("hint: set FileDescriptorStoreMax= in the unit")
	}
	if err != nil {
		return err
	}

	starts := 0
	for _, h := range back.Known {
		content, err := fdstore.ReadMemfd(h.FD.Raw(), 1<<10)
		if err != nil {
			return err
		}
		if _, err := fmt.Sscan(string(content), &starts); err != nil {
			return err
		}
		_ = h.FD.Close()
	}
	starts++

	state, err := fdstore.Memfd("state", fmt.Append(nil, starts))
	if err != nil {
		return err
	}
	defer state.Close()
	old := store.Names()
	if err := store.Push(ctx, fdstore.Entry{Name: fmt.Sprint("state/", starts), FD: state.Raw()}); err != nil {
		return err // a *FullError has a hint
	}
	if err := store.Remove(ctx, old...); err != nil {
		return err
	}
	fmt.Printf("start %d, kept: %v\n", starts, store.Names())
	return nil
}
