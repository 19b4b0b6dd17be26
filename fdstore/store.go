package fdstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
)

// Options of Open.
type Options struct {
	// Max is how many descriptors the store takes, FileDescriptorStoreMax=. systemd
	// tells since 254, in $FDSTORE. It should be less where the soft LimitNOFILE= of
	// the unit is. 0 = not known: a full store is only found out by trying then.
	Max int
}

// Store is what the manager keeps for this service. Its methods may be called from
// any goroutine. One at a time talks to the manager; the others wait for it no
// longer than their context lasts.
type Store struct {
	manager Manager
	max     atomic.Int64
	came    bool // something was in it at the start
	kept    atomic.Pointer[inventory]

	turn    chan struct{} // full while somebody talks to the manager
	overdue []string      // removals that could not be sent; for who has the turn
}

// Open is [New] and [Store.Probe]. A Store that cannot be used is not given.
func Open(ctx context.Context, m Manager, back Returned, o Options) (*Store, error) {
	s := New(m, back, o)
	if err := s.Probe(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// New takes charge of the store in which back was found, and does not talk to the
// manager yet.
func New(m Manager, back Returned, o Options) *Store {
	s := &Store{manager: m, turn: make(chan struct{}, 1), came: !back.empty()}
	s.Resize(o.Max)
	kept := newInventory()
	for _, h := range slices.Concat(back.Known, back.Foreign) {
		kept.add(h.Name, identifyHeld(h))
	}
	for _, stale := range back.Stale {
		if kept.names[stale.Name] > 0 { // removing goes by name, and one of it is needed
			kept.add(stale.Name, object{})
			continue
		}
		s.overdue = append(s.overdue, stale.Name)
	}
	s.kept.Store(kept)
	return s
}

// Probe removes what is stale, and tries whether anything is kept at all.
//
// The error is [ErrNoStore] when nothing is, and nothing came back either. A manager
// that does not answer is waited for until ctx ends; then it can be tried again.
func (s *Store) Probe(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return fmt.Errorf("open the descriptor store: %w", err)
	}
	defer s.end()
	room, err := s.hasRoom(ctx)
	if err != nil {
		return fmt.Errorf("open the descriptor store: %w", err)
	}
	if !room && !s.came {
		return ErrNoStore
	}
	return nil
}

// Len is how many descriptors are in the store, foreign ones too.
func (s *Store) Len() int {
	return s.kept.Load().count
}

// Max is how many descriptors the store takes, the canary among them; 0 = not known.
func (s *Store) Max() int {
	return int(s.max.Load())
}

// Resize says how many descriptors the store takes by now, as Options.Max did: a manager
// that has read its units again may take more.
func (s *Store) Resize(most int) {
	s.max.Store(int64(most))
}

// Names are those of all descriptors in the store, each once, in their order.
func (s *Store) Names() []string {
	return slices.Sorted(maps.Keys(s.kept.Load().names))
}

// Has tells whether a descriptor of that name is in the store.
func (s *Store) Has(name string) bool {
	return s.kept.Load().names[name] > 0
}

// begin waits for the turn, and brings the manager to the state that kept says.
func (s *Store) begin(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for the descriptor store: %w", ctx.Err())
	}
	for len(s.overdue) > 0 {
		if err := s.sendRemove(s.overdue[0]); err != nil {
			s.end()
			return fmt.Errorf("remove %s, which should not be in the descriptor store: %w", s.overdue[0], err)
		}
		s.overdue = s.overdue[1:]
	}
	return nil
}

func (s *Store) end() {
	<-s.turn
}
