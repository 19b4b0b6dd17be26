package keeper

import (
	"slices"

	"golang.org/x/sys/unix"
)

// former are processes that have been the main one, and run on: they end what they have
// begun. A keeper that has taken the main one on does not know them.
type former []*process

// prune lets go of those that have ended.
func (f *former) prune(gone func(*process)) {
	*f = slices.DeleteFunc(*f, func(p *process) bool {
		if !p.ended() {
			return false
		}
		gone(p)
		p.close()
		return true
	})
}

// signal sends a signal to each.
func (f former) signal(signal unix.Signal) {
	for _, p := range f {
		_ = p.signal(signal) // not allowed to: it has another user now
	}
}

func (f former) close() {
	for _, p := range f {
		p.close()
	}
}
