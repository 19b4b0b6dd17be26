package sock

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// FD is a descriptor with one owner: who holds the FD closes it. Nothing else
// does, no finalizer in particular. A zero FD is closed.
//
// Methods may be called from several goroutines, but a number taken from Raw
// must not be in use while the owner closes.
type FD struct {
	plus1 atomic.Int32 // descriptor + 1, so that the zero value is not stdin
}

// NewFD makes the caller the owner of an open descriptor.
func NewFD(raw int) *FD {
	fd := &FD{}
	fd.plus1.Store(int32(raw) + 1)
	traceOpen(fd)
	return fd
}

// Raw is the descriptor, lent for a system call; -1 when the FD is closed or
// disowned.
func (fd *FD) Raw() int {
	return int(fd.plus1.Load()) - 1
}

// Close closes the descriptor. Only the first call does anything.
func (fd *FD) Close() error {
	raw := fd.Disown()
	if raw < 0 {
		return nil
	}
	// Never repeated, also not after EINTR: the number is free by then and may
	// belong to another goroutine.
	if err := unix.Close(raw); err != nil {
		return fmt.Errorf("close descriptor %d: %w", raw, err)
	}
	return nil
}

// Disown gives the descriptor away without closing it. It is -1 when the FD is
// closed or disowned already.
func (fd *FD) Disown() int {
	traceClosed(fd)
	return int(fd.plus1.Swap(0)) - 1
}
