package handover

import (
	"context"
	"slices"
	"sync"
	"time"
)

// silent are the peers that have said nothing yet, the first to come first.
type silent struct {
	mu   sync.Mutex
	list []*silentPeer
}

type silentPeer struct {
	since    time.Time
	driveOut context.CancelFunc
}

// add has a peer driven out by ending its context, until remove.
func (s *silent) add(driveOut context.CancelFunc) (remove func()) {
	p := &silentPeer{time.Now(), driveOut}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, p)
	return func() { s.remove(p) }
}

func (s *silent) remove(p *silentPeer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(other *silentPeer) bool { return other == p })
}

// first is when the first of them has had its time, and what ends it then; nil = never.
func (s *silent) first() (overdue <-chan time.Time, driveOut func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return nil, nil
	}
	p := s.list[0]
	return time.After(time.Until(p.since.Add(hurriedHello))), func() {
		s.remove(p)
		p.driveOut()
	}
}
