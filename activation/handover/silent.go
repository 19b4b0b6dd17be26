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

// silentPeer is one of them: until its context ends it may say Hello.
type silentPeer struct {
	context.Context

	since  time.Time
	cancel context.CancelFunc
}

// add lets one more say Hello within a time. remove follows.
func (s *silent) add(ctx context.Context, within time.Duration) *silentPeer {
	p := &silentPeer{since: time.Now()}
	p.Context, p.cancel = context.WithTimeout(ctx, within)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, p)
	return p
}

// remove is when it has said something, or its time is over.
func (s *silent) remove(p *silentPeer) {
	p.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(other *silentPeer) bool { return other == p })
}

// first is the one that came first, nil if there is none.
func (s *silent) first() *silentPeer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return nil
	}
	return s.list[0]
}

// overdue is when it has had its time, if others wait.
func (p *silentPeer) overdue() <-chan time.Time {
	if p == nil {
		return nil
	}
	return time.After(time.Until(p.since.Add(hurriedHello)))
}
