package fdstore

import (
	"context"
	"fmt"
	"slices"
)

// maxInFlight is after how many descriptors the manager is waited for. What it has
// not received yet counts against the user's limit of open files (NOFILE), and
// beyond that no process of the user can pass descriptors (ETOOMANYREFS).
const maxInFlight = 64

// Entry is a descriptor to be kept.
type Entry struct {
	// Name tells it from all others: 1 to 255 bytes of printable ASCII without ':'.
	// Those that begin with "canary/" are the package's own.
	Name string
	FD   int // lent
}

// Push has the manager keep all entries, or none. They get into the store in the
// order that they are given in.
//
// The error is a [FullError] when there is no room. A name or a file that is in the
// store already is an error too, and then nothing was sent.
//
// When sending fails, or the manager does not answer within ctx, it is told to
// remove the entries again. A part of them may be in the store until it has.
func (s *Store) Push(ctx context.Context, entries ...Entry) error {
	if len(entries) == 0 {
		return nil
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	before := s.kept.Load()
	after, err := before.with(entries)
	if err != nil {
		return err
	}
	full := &FullError{Used: before.count, Wanted: len(entries), Max: s.Max()}
	if after.nameBytes > maxNameBytes {
		full.NameBytes = after.nameBytes
		return full
	}
	if full.Max > 0 && after.count+1 > full.Max {
		return full
	}

	sent, err := s.sendAll(ctx, entries)
	if err != nil {
		s.undo(sent)
		return err
	}
	room, err := s.hasRoom(ctx)
	if err != nil {
		s.undo(sent)
		return err
	}
	if !room {
		s.undo(sent)
		_ = s.manager.Barrier(ctx) // what is sent later is dealt with later anyway
		return full
	}
	s.kept.Store(after)
	return nil
}

// sendAll gives the names of those that were sent.
func (s *Store) sendAll(ctx context.Context, entries []Entry) (sent []string, err error) {
	for i, e := range entries {
		if i > 0 && i%maxInFlight == 0 {
			if err := s.manager.Barrier(ctx); err != nil {
				return sent, err
			}
		}
		if err := s.sendPush(e); err != nil {
			return sent, fmt.Errorf("push %s to the descriptor store: %w", e.Name, err)
		}
		sent = append(sent, e.Name)
	}
	return sent, nil
}

// undo removes what was pushed, the last one first: it stands for all of them.
// What cannot be sent now is sent before anything else is.
func (s *Store) undo(sent []string) {
	for i, name := range slices.Backward(sent) {
		if err := s.sendRemove(name); err != nil {
			s.overdue = append(s.overdue, sent[:i+1]...)
			return
		}
	}
}
