package relay

import (
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// shelf stands for a vault: it holds copies of what it is given, as the queue of a
// socket would, and its memory is there for whoever restores from it. The real one is
// tested with the relay in cmd/holdfast.
type shelf struct {
	t       *testing.T
	mu      sync.Mutex
	memory  []byte
	common  []byte
	most    int // slots
	free    []uint32
	kept    map[uint32][2]int32 // copies
	notes   map[uint32][]byte
	counts  map[uint32]*atomic.Int64 // of the notes
	noted   uint32
	full    bool // it takes no note
	slabs   [][]byte
	refuses bool
}

const shelfSlot = 256

func newShelf(t *testing.T, most int) *shelf {
	t.Helper()
	memory, err := unix.Mmap(-1, 0, most*shelfSlot, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	s := &shelf{t: t, memory: memory, common: make([]byte, 4096), most: most, kept: map[uint32][2]int32{}, notes: map[uint32][]byte{}, counts: map[uint32]*atomic.Int64{}}
	for i := range most {
		s.free = append(s.free, uint32(i))
	}
	t.Cleanup(s.close)
	return s
}

func (s *shelf) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fds := range s.kept {
		for _, fd := range fds {
			if fd >= 0 {
				closeFD(fd)
			}
		}
	}
	for _, slab := range s.slabs {
		_ = unix.Munmap(slab)
	}
	_ = unix.Munmap(s.memory)
}

func (s *shelf) at(slot uint32) []byte {
	return s.memory[slot*shelfSlot+16 : (slot+1)*shelfSlot]
}

func (s *shelf) Take() (uint32, []byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 || s.refuses {
		return 0, nil, false
	}
	slot := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	clear(s.at(slot))
	return slot, s.at(slot), true
}

func (s *shelf) Keep(slot uint32, a, b int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	copies := [2]int32{-1, -1}
	for i, fd := range []int32{a, b} {
		if fd < 0 {
			continue
		}
		c, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			s.t.Errorf("copy descriptor %d: %v", fd, err)
		}
		copies[i] = int32(c)
	}
	s.kept[slot] = copies
	return true
}

func (s *shelf) Drop(slot uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fd := range s.kept[slot] {
		if fd > 0 {
			closeFD(fd)
		}
	}
	delete(s.kept, slot)
	s.free = append(s.free, slot)
}

func (s *shelf) Slab() ([]byte, uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slab, err := unix.Mmap(-1, 0, slabBuffers*bufferSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	s.slabs = append(s.slabs, slab)
	return slab, uint32(len(s.slabs) - 1), err
}

func (s *shelf) AdoptSlab(number uint32) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(number) >= len(s.slabs) {
		return nil, false
	}
	return s.slabs[number], true
}

func (s *shelf) Note(content []byte) (uint32, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return 0, false
	}
	s.noted++
	s.notes[s.noted], s.counts[s.noted] = content, new(atomic.Int64)
	return s.noted, true
}

func (s *shelf) Counter(number uint32) *atomic.Int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[number]
}

func (s *shelf) DropNote(number uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.notes, number)
	delete(s.counts, number)
}

// found is what a new process finds: copies of all that is kept.
func (s *shelf) found() []Kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Kept
	for slot, fds := range s.kept {
		k := Kept{Slot: slot, Memory: s.at(slot), FDs: [2]int32{-1, -1}}
		for i, fd := range fds {
			if fd >= 0 {
				c, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
				require.NoError(s.t, err)
				k.FDs[i] = int32(c)
			}
		}
		all = append(all, k)
	}
	return all
}

func (s *shelf) uses(of Use) map[uint32]Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	uses := map[uint32]Use{}
	for number, content := range s.notes {
		if n, err := ReadNote(content); err == nil && n.Kind == OfUse {
			uses[number] = of
		}
	}
	return uses
}

// left are the notes as a new process finds them.
func (s *shelf) left() map[uint32][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.notes)
}

// tallies are the counts of sockets that are kept, by their id.
func (s *shelf) tallies() map[uint64][]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[uint64][]int64{}
	for number, content := range s.notes {
		if n, err := ReadNote(content); err == nil && n.Kind == OfSocket {
			all[n.Socket] = append(all[n.Socket], s.counts[number].Load())
		}
	}
	return all
}
