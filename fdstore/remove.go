package fdstore

import (
	"context"
	"fmt"
)

// Remove has the manager give up all descriptors of these names, and waits until it
// has. It closes them some time later: a socket that nobody else has may take
// clients until then. A name that is not in the store is no error.
//
// When the manager does not answer within ctx, they are not in the store any more
// as far as Names and Has go: the manager will come to it. Those that could not even
// be asked for are there still.
func (s *Store) Remove(ctx context.Context, names ...string) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	before := s.kept.Load()
	var sent []string
	defer func() { s.kept.Store(before.without(sent)) }()
	for _, name := range names {
		if before.names[name] == 0 {
			continue
		}
		if err := s.sendRemove(name); err != nil {
			return fmt.Errorf("remove %s from the descriptor store: %w", name, err)
		}
		sent = append(sent, name)
	}
	if len(sent) == 0 {
		return nil
	}
	return s.manager.Barrier(ctx)
}
