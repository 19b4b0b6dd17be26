package relay

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// bufferSize is what one recv takes at most. Larger reads than this come
	// from bulk transfers, which go through pipes.
	bufferSize = 16 << 10
	// slabBuffers is how many buffers are mapped at a time: 1 MiB.
	slabBuffers = 64
	// trimAbove is how many free buffers stay resident after a burst.
	trimAbove = 64
)

// noBuffer marks a direction that owns no buffer.
const noBuffer int32 = -1

// bufferPool hands out buffers of one loop. They lie in mapped memory outside the Go
// heap, and are known by their index.
type bufferPool struct {
	newSlab func() (memory []byte, number uint32, err error)
	shared  bool // the slabs are a vault's
	slabs   [][]byte
	numbers []uint32 // of the slabs in the vault
	free    []int32  // the last one given back is the first one taken: it is warm
	cold    int      // free[:cold] have given their pages back to the kernel
}

// get takes a buffer.
func (b *bufferPool) get() (int32, error) {
	if len(b.free) == 0 {
		if err := b.grow(); err != nil {
			return noBuffer, err
		}
	}
	last := len(b.free) - 1
	i := b.free[last]
	b.free = b.free[:last]
	b.cold = min(b.cold, last)
	return i, nil
}

// put gives a buffer back.
func (b *bufferPool) put(i int32) {
	b.free = append(b.free, i)
}

// bytes is the whole memory of a buffer.
func (b *bufferPool) bytes(i int32) []byte {
	at := int(i%slabBuffers) * bufferSize
	return b.slabs[i/slabBuffers][at : at+bufferSize : at+bufferSize]
}

// number is how the vault knows a buffer.
func (b *bufferPool) number(i int32) uint32 {
	return b.numbers[i/slabBuffers]*slabBuffers + uint32(i%slabBuffers)
}

// bufferAt is the buffer that another process knew by a number.
func bufferAt(v Vault, number uint32) ([]byte, bool) {
	slab, ok := v.SlabAt(number / slabBuffers)
	if !ok {
		return nil, false
	}
	at := int(number%slabBuffers) * bufferSize
	return slab[at : at+bufferSize], true
}

// warm tells whether trim has something to do.
func (b *bufferPool) warm() bool { return len(b.free)-b.cold > trimAbove }

func (b *bufferPool) grow() error {
	slab, number, err := b.newSlab()
	if err != nil {
		return fmt.Errorf("map %d KiB for buffers: %w", slabBuffers*bufferSize>>10, err)
	}
	first := int32(len(b.slabs) * slabBuffers)
	b.slabs, b.numbers = append(b.slabs, slab), append(b.numbers, number)
	for i := int32(slabBuffers) - 1; i >= 0; i-- {
		b.free = append(b.free, first+i)
	}
	b.cold = len(b.free) // never touched yet
	return nil
}

// mapAnonymous maps the memory of one slab, which has no number.
func mapAnonymous() ([]byte, uint32, error) {
	slab, err := unix.Mmap(-1, 0, slabBuffers*bufferSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	return slab, 0, err
}

// trim gives the pages of free buffers back to the kernel but for the warmest,
// so that the memory of a burst does not stay for ever.
func (b *bufferPool) trim() {
	advice := unix.MADV_DONTNEED
	if b.shared {
		advice = unix.MADV_REMOVE // the file has the pages, too
	}
	for ; b.cold < len(b.free)-trimAbove; b.cold++ {
		_ = unix.Madvise(b.bytes(b.free[b.cold]), advice)
	}
}

// close unmaps everything that is the pool's own. No buffer may be in use.
func (b *bufferPool) close() {
	for _, slab := range b.slabs {
		if !b.shared {
			_ = unix.Munmap(slab)
		}
	}
	*b = bufferPool{}
}
