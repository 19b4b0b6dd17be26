package fdstore

import (
	"errors"
	"fmt"
)

// ErrNoStore means that the manager keeps nothing: FileDescriptorStoreMax= is 0, as
// by default, or it does not know descriptor stores, or does not listen to this
// process (NotifyAccess=).
var ErrNoStore = errors.New("the service manager keeps no descriptors")

// FullError means that the store has no room. Nothing of the push is in it.
type FullError struct {
	Used   int // descriptors that were in the store
	Wanted int // descriptors that were to be pushed
	Max    int // FileDescriptorStoreMax=, 0 = not known

	// NameBytes is what the names would come to in LISTEN_FDNAMES, if that is what
	// is full; else 0.
	NameBytes int
}

func (e *FullError) Error() string {
	switch {
	case e.NameBytes > 0:
		return fmt.Sprintf("no room in the descriptor store: the names of %d descriptors come to %d bytes, and %d are safe",
			e.Used+e.Wanted, e.NameBytes, maxNameBytes)
	case e.Max > 0 && e.Used+e.Wanted+1 > e.Max:
		return fmt.Sprintf("no room in the descriptor store: %d of its %d places are taken, %d more are wanted and one has to stay free",
			e.Used, e.Max, e.Wanted)
	}
	return fmt.Sprintf("the descriptor store is full: the service manager dropped some of %d descriptors beside the %d that it has",
		e.Wanted, e.Used)
}

// Hint says what a person can do about it.
func (e *FullError) Hint() string {
	if e.NameBytes > 0 {
		return "fewer listeners, or shorter names, would fit"
	}
	return fmt.Sprintf("raise FileDescriptorStoreMax= of the unit to %d or more, and keep its LimitNOFILE= well above that", e.Used+e.Wanted+1)
}
