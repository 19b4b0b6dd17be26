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

// bufferPool hands out the buffers of one loop. They lie in mapped memory
// outside the Go heap and are known by their index, so that the memory can be
// one that another process maps too.
type bufferPool struct {
	mapSlab func() ([]byte, error) // mapAnonymous, but in tests
	slabs   [][]byte
	free    []int32 // the last one given back is the first one taken: it is warm
	cold    int     // free[:cold] have given their pages back to the kernel
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

// warm tells whether trim has something to do.
func (b *bufferPool) warm() bool { return len(b.free)-b.cold > trimAbove }

func (b *bufferPool) grow() error {
	slab, err := b.mapSlab()
	if err != nil {
		return fmt.Errorf("map %d KiB for buffers: %w", slabBuffers*bufferSize>>10, err)
	}
	first := int32(len(b.slabs) * slabBuffers)
	b.slabs = append(b.slabs, slab)
	for i := int32(slabBuffers) - 1; i >= 0; i-- {
		b.free = append(b.free, first+i)
	}
	b.cold = len(b.free) // never touched yet
	return nil
}

// mapAnonymous maps the memory of one slab.
func mapAnonymous() ([]byte, error) {
	return unix.Mmap(-1, 0, slabBuffers*bufferSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

// trim gives the pages of free buffers back to the kernel but for the warmest,
// so that the memory of a burst does not stay for ever.
func (b *bufferPool) trim() {
	for ; b.cold < len(b.free)-trimAbove; b.cold++ {
		_ = unix.Madvise(b.bytes(b.free[b.cold]), unix.MADV_DONTNEED)
	}
}

// close unmaps everything. No buffer may be in use.
func (b *bufferPool) close() {
	for _, slab := range b.slabs {
		_ = unix.Munmap(slab)
	}
	*b = bufferPool{}
}
