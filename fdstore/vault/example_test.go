package vault_test

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// A service that keeps a connection, dies, and goes on with it.
func Example() {
	ctx, cancel := contextFor(10 * time.Second)
	defer cancel()
	// Under systemd the manager is what systemd.NotifierFromEnv gives, and held comes
	// with LISTEN_FDS.
	manager, err := storetest.New("@vault-example", 20)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close()
	// The ends of a connection: the service has the first.
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer unix.Close(pair[1])

	if err := firstLife(ctx, manager, pair[0]); err != nil {
		fmt.Println(err)
	}
	if err := secondLife(ctx, manager); err != nil {
		fmt.Println(err)
	}
	b := make([]byte, 100)
	n, _ := unix.Read(pair[1], b)
	fmt.Printf("the client has got %q\n", b[:n])
	// Output:
	// found "client 1"
	// the client has got "still here"
}

func firstLife(ctx context.Context, manager *storetest.Manager, conn int) error {
	defer unix.Close(conn)
	store, err := fdstore.Open(ctx, manager.Notifier(), fdstore.Returned{}, fdstore.Options{})
	if err != nil {
		return err
	}
	v, err := vault.New(vault.Options{})
	if err != nil {
		return err
	}
	defer v.Close() // kill -9 would do
	if err := v.Entrust(ctx, store); err != nil {
		return err
	}
	w := v.Writer(0)
	slot, memory, ok := w.Take()
	if !ok {
		return nil // it is served unkept
	}
	copy(memory, "client 1")
	w.Keep(slot, int32(conn), -1)
	return nil
}

func secondLife(ctx context.Context, manager *storetest.Manager) error {
	back := fdstore.Reconcile(manager.Pass(), vault.IsName)
	store, err := fdstore.Open(ctx, manager.Notifier(), back, fdstore.Options{})
	if err != nil {
		return err
	}
	v, found, err := vault.Restore(vault.Options{}, back.Known)
	if err != nil {
		return err
	}
	defer v.Close()
	if err := v.Entrust(ctx, store); err != nil { // new segments, if there are any
		return err
	}
	for _, k := range found.Kept {
		fmt.Printf("found %q\n", k.Memory[:8])
		if _, err := unix.Write(int(k.FDs[0]), []byte("still here")); err != nil {
			return err
		}
		v.Writer(0).Drop(k.Slot) // before it is closed
		if err := unix.Shutdown(int(k.FDs[0]), unix.SHUT_RDWR); err != nil {
			return err
		}
		_ = unix.Close(int(k.FDs[0]))
	}
	return v.Withdraw(ctx) // this one is a stop
}
