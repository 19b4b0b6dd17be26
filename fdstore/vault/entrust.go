package vault

import (
	"context"
	"fmt"

	"github.com/holdfast-proxy/holdfast/fdstore"
)

// Entrust has a store keep the vault: the table and all segments, those that it has
// already not again. From then on no segment is used before the store has it. Called
// with another store it changes to that one, and leaves the former alone. nil is
// nobody: the vault can only be handed over then.
//
// What else the store has under the names of a vault is removed from it: another
// vault, which could not be restored, or segments that were given up.
//
// When it fails, the vault goes on with the store that it had, or without.
func (v *Vault) Entrust(ctx context.Context, store *fdstore.Store) error {
	v.changing.Lock()
	defer v.changing.Unlock()
	if store == nil {
		v.store = nil
		return nil
	}
	files, release := v.Files()
	defer release()
	ours := make(map[string]bool, len(files))
	for _, f := range files {
		ours[f.Name] = !v.foreign
	}
	var others []string
	for _, name := range store.Names() {
		if IsName(name) && !ours[name] {
			others = append(others, name)
		}
	}
	if err := store.Remove(ctx, others...); err != nil {
		return fmt.Errorf("entrust the vault to a store: %w", err)
	}
	var entries []fdstore.Entry
	for _, f := range files {
		if !store.Has(f.Name) {
			entries = append(entries, f)
		}
	}
	if err := push(ctx, store, entries); err != nil {
		return fmt.Errorf("entrust the vault to a store: %w", err)
	}
	v.store, v.foreign = store, false
	return nil
}

// mostSpare is how many places of a store are left to whatever else is to be kept, such as
// new listening sockets; an eighth of a small one.
const mostSpare = 64

// push has the store keep parts of the vault, if it is not nearly full.
func push(ctx context.Context, store *fdstore.Store, entries []fdstore.Entry) error {
	most := store.Max()
	if spare := min(mostSpare, most/8); most > 0 && store.Len()+len(entries) > most-spare && len(entries) > 0 {
		return &fdstore.FullError{Used: store.Len(), Wanted: len(entries), Max: most - spare}
	}
	return store.Push(ctx, entries...)
}

// Withdraw removes the vault from the store that it was entrusted to, the table last.
// Nobody keeps it then. After an error it can be tried again.
func (v *Vault) Withdraw(ctx context.Context) error {
	v.changing.Lock()
	defer v.changing.Unlock()
	store := v.store
	if store == nil {
		return nil
	}
	files, release := v.Files()
	defer release()
	var names []string
	for _, f := range files[1:] {
		names = append(names, f.Name)
	}
	if err := store.Remove(ctx, append(names, TableName)...); err != nil {
		return fmt.Errorf("withdraw the vault from its store: %w", err)
	}
	v.store = nil
	return nil
}
