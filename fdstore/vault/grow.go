package vault

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-proxy/holdfast/fdstore"
)

const (
	// pushTimeout is for how long a manager that does not answer is waited for.
	pushTimeout = 10 * time.Second
	// mostPause is between two tries to add segments, when none could be.
	mostPause = time.Minute
	// shrinkAfter is for how many seconds there have to be too many segments.
	shrinkAfter = 60
	// shrinkBy is how many segments are given up in a second.
	shrinkBy = 8
)

// grow adds segments before they are needed, and gives up what is not needed any
// more. It ends with ctx.
func (v *Vault) grow(ctx context.Context) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	b := newBroom(v)
	var pause time.Duration
	var next time.Time
	for calm := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-v.growWanted:
		case <-second.C:
			if calm++; len(v.ready) <= 2*v.wantReady() {
				calm = 0
			}
			v.shrink(ctx, b, calm >= shrinkAfter)
		}
		if time.Now().Before(next) {
			v.offerRest()
			continue
		}
		if err := v.addSegments(ctx); err != nil {
			if pause == 0 && ctx.Err() == nil {
				v.o.Log.Warn("the vault cannot grow; new connections may not be kept", "error", err)
			}
			pause = min(max(2*pause, time.Second), mostPause)
			next = time.Now().Add(pause)
			v.offerRest()
			continue
		}
		pause = 0
	}
}

// wantReady is how many segments should be ready: one for each writer, one for the
// sweeper, and an eighth of all for those that come in a burst.
func (v *Vault) wantReady() int {
	all := 0
	for range v.segments {
		all++
	}
	return len(v.writers) + 1 + all/8
}

// addSegments makes as many as are wanted, or as were taken since the last time if
// that is more. With a store they are in it before they are used.
func (v *Vault) addSegments(ctx context.Context) error {
	v.changing.Lock()
	defer v.changing.Unlock()
	missing := v.wantReady() - len(v.ready)
	if missing <= 0 || v.isLent() {
		return nil
	}
	n := max(missing, int(v.taken.Swap(0)))
	for {
		err := v.add(ctx, n)
		var full *fdstore.FullError
		if !errors.As(err, &full) || n == 1 {
			return err
		}
		n /= 2
	}
}

func (v *Vault) add(ctx context.Context, n int) error {
	segments, err := v.makeSegments(n)
	if err != nil {
		return err
	}
	if v.store != nil {
		ctx, cancel := context.WithTimeout(ctx, pushTimeout)
		defer cancel()
		var entries []fdstore.Entry
		for _, s := range segments {
			entries = append(entries, s.entries()...)
		}
		if err := push(ctx, v.store, entries); err != nil {
			for _, s := range segments {
				err = errors.Join(err, s.close())
			}
			return fmt.Errorf("have segments of the vault kept: %w", err)
		}
	}
	v.publish(segments)
	return nil
}

// makeSegments makes them with names that no other segment of the vault had or has.
func (v *Vault) makeSegments(n int) ([]*segment, error) {
	segments := make([]*segment, 0, n)
	for range n {
		s, err := newSegment(v.table.uint32At(atSegment).Add(1))
		if err != nil {
			for _, s := range segments {
				err = errors.Join(err, s.close())
			}
			return nil, err
		}
		segments = append(segments, s)
	}
	return segments, nil
}

// publish enters segments into the directory and gives them to the writers. Those that
// there is no place for are closed; so many no vault needs.
func (v *Vault) publish(segments []*segment) {
	if v.isLate(segments) {
		return
	}
	for _, s := range segments {
		if !v.enter(s) {
			v.o.Log.Error("the directory of the vault is full", "segment", s.id, "error", s.close())
			continue
		}
		s.mu.Lock()
		v.offer(s)
		s.mu.Unlock()
	}
}

// isLate puts segments aside while somebody has the list of files, in which they are
// not: nothing may get into them.
func (v *Vault) isLate(segments []*segment) bool {
	v.listing.Lock()
	defer v.listing.Unlock()
	if v.lent > 0 {
		v.late = append(v.late, segments...)
	}
	return v.lent > 0
}

func (v *Vault) takeLate() []*segment {
	v.listing.Lock()
	defer v.listing.Unlock()
	late := v.late
	v.late = nil
	return late
}

// offer makes a segment ready if it is nobody's and at most half full. It is locked.
func (v *Vault) offer(s *segment) {
	v.offerUpTo(s, v.capacity.Load()/2)
}

// offerRest is for when there are no more segments to be had: those that are more than
// half full have some room too. An eighth is left to the sweeper, or it would be woken
// for each that is kept.
func (v *Vault) offerRest() {
	for s := range v.segments {
		if s.state.Load() == idle && s.mu.TryLock() {
			v.offerUpTo(s, v.capacity.Load()*7/8)
			s.mu.Unlock()
		}
	}
}

func (v *Vault) offerUpTo(s *segment, most int32) {
	if s.state.Load() == idle && !s.gone && !s.broken && s.in != nil && s.queued.Load() <= most {
		s.state.Store(ready)
		v.ready <- s
	}
}

// reopen takes a segment into use again that was to be given up. It is locked.
func (v *Vault) reopen(s *segment) {
	s.state.Store(idle)
	v.offer(s)
}

// shrink gives up segments that nothing can be sent to, and if there are too many,
// empty ones. What lives in these it has sent to others first.
func (v *Vault) shrink(ctx context.Context, b *broom, tooMany bool) {
	var spent []*segment
	for s := range v.segments {
		if s.in == nil && s.queued.Load() == 0 {
			spent = append(spent, s)
		}
	}
	for range shrinkBy {
		if !tooMany || len(v.ready) <= v.wantReady() {
			break
		}
		s := v.next()
		if s == nil {
			break
		}
		s.mu.Lock()
		s.state.Store(leaving) // so that nothing is sent to it
		if b.clean(s, math.MaxInt, true) {
			spent = append(spent, s)
		} else {
			v.reopen(s)
		}
		s.mu.Unlock()
	}
	if len(spent) > 0 {
		v.giveUp(ctx, spent)
	}
}

// giveUp closes empty segments that no writer has, and removes them from the store. It
// does not matter if that fails: they are empty, and their names are not used again.
func (v *Vault) giveUp(ctx context.Context, spent []*segment) {
	v.changing.Lock()
	defer v.changing.Unlock()
	var names []string
	for _, s := range spent {
		if v.leave(s) {
			names = append(names, inName(s.id), outName(s.id))
			continue
		}
		s.mu.Lock()
		v.reopen(s)
		s.mu.Unlock()
	}
	if v.store == nil || len(names) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	if err := v.store.Remove(ctx, names...); err != nil {
		v.o.Log.Warn("segments that the vault gave up are in the descriptor store still", "error", err)
	}
}
