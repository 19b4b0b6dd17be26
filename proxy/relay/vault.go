package relay

import "sync/atomic"

// SlotFormat is the version of what a relay writes into the slots and buffers of a
// vault. OldestFormat is the oldest one that this relay can go on from.
const (
	SlotFormat   = 1
	OldestFormat = 1
)

// Vault is where one loop leaves what the next process needs to go on with its
// connections: copies of their descriptors, with a slot of shared memory for each.
// Whoever holds the vault holds both when this process is gone. Take, Keep and Slab
// are only called by the loop; the rest by any goroutine.
type Vault interface {
	// Take reserves a slot. Its memory is zero. It is false when there is no room.
	Take() (slot uint32, memory []byte, ok bool)

	// Keep leaves copies of one descriptor or two (b < 0 = none) for a slot that was
	// taken. When it returns false there is no room, and the slot is free again. The
	// descriptors stay open until Drop.
	Keep(slot uint32, a, b int32) bool

	// Drop gives up a slot that was kept, or only taken, by this Vault or another one
	// of the same relay.
	Drop(slot uint32)

	// Slab gives memory for 64 buffers, known by its number.
	Slab() (memory []byte, number uint32, err error)

	// AdoptSlab makes a slab that another process has left one of this process, as it is,
	// as often as it is called. It is false when there is none of that number.
	AdoptSlab(number uint32) (memory []byte, ok bool)

	// Note keeps a text for as long as DropNote is not called. It is false when there
	// is no room.
	Note(content []byte) (number uint32, ok bool)
	DropNote(number uint32)

	// Counter is a number that goes with a note, and is 0 when the note is new.
	Counter(note uint32) *atomic.Int64
}

// Kept is what a process has left in a slot.
type Kept struct {
	Slot   uint32
	Memory []byte
	FDs    [2]int32 // -1 = none
}
