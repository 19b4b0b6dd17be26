package vault

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ErrNoSlab means that all slabs of the table are taken, by this process or by former
// ones from which it has adopted them, or has not settled.
var ErrNoSlab = errors.New("the vault has no slab left")

// slabs hands out the slabs of the table, with a mark in it for each.
type slabs struct {
	table *table

	mu   sync.Mutex
	left map[int]bool // taken in a former life, until Settle; true = adopted by this one
}

func newSlabs(t *table) slabs {
	return slabs{table: t, left: map[int]bool{}}
}

// Slab takes 1 MiB of the table, zero in the beginning, for the life of this process and
// of those after it that adopt it by its number. The error is ErrNoSlab.
func (w *Writer) Slab() (memory []byte, number uint32, err error) {
	i, ok := w.vault.slabs.take()
	if !ok {
		return nil, 0, ErrNoSlab
	}
	return w.vault.slabs.memory(i), uint32(i), nil
}

// AdoptSlab makes a slab of a former life one of this life, as it is. That can be done
// until Settle, as often as one likes and by all writers. It is false when there is none
// of that number.
func (w *Writer) AdoptSlab(number uint32) (memory []byte, ok bool) {
	s := &w.vault.slabs
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.left[int(number)]; !ok {
		return nil, false
	}
	s.left[int(number)] = true
	return s.memory(int(number)), true
}

// Settle says that the restoring is done: nothing is needed any more of what former
// lives left in slabs that were not adopted, and the notes and the common page are in
// this program's format. The memory goes back to the system.
func (v *Vault) Settle() error {
	v.table.tried()
	v.table.uint32At(atUserFormat).Store(v.o.Format)
	v.table.uint32At(atUserReaders).Store(v.o.ReadBy)
	if err := v.slabs.settle(); err != nil {
		return fmt.Errorf("give back the memory of a vault's slabs: %w", err)
	}
	return nil
}

func (s *slabs) mark(i int) *atomic.Uint32 {
	return s.table.uint32At(s.table.mark(i))
}

func (s *slabs) memory(i int) []byte {
	start := s.table.slab(i)
	return s.table.mem[start : start+slabSize : start+slabSize]
}

func (s *slabs) take() (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.table.slabs {
		if mark := s.mark(i); mark.Load() == 0 {
			mark.Store(1)
			return i, true
		}
	}
	return 0, false
}

// restore notes which slabs a former life has taken.
func (s *slabs) restore() {
	for i := range s.table.slabs {
		if s.mark(i).Load() != 0 {
			s.left[i] = false
		}
	}
}

// settle punches what nobody has adopted out of the file before it frees it, so that
// whoever takes a slab finds zeros. What cannot be punched out stays taken.
func (s *slabs) settle() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, adopted := range s.left {
		if !adopted {
			if err := s.punch(i); err != nil {
				return err
			}
			s.mark(i).Store(0)
		}
		delete(s.left, i)
	}
	return nil
}

func (s *slabs) punch(i int) error {
	const punch = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	for {
		err := unix.Fallocate(s.table.fd.Raw(), punch, int64(s.table.slab(i)), slabSize)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
