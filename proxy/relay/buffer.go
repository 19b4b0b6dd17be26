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
// heap, and are known by a number: that of their slab, times 64, and their place there.
type bufferPool struct {
	vault Vault    // whose slabs they are; nil = memory of this process
	slabs [][]byte // by number; nil = none of its buffers is here
	free  []int32  // the last one given back is the first one taken: it is warm
	cold  int      // free[:cold] have given their pages back to the kernel
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
	slab, number, err := b.newSlab()
	if err != nil {
		return fmt.Errorf("map %d KiB for buffers: %w", slabBuffers*bufferSize>>10, err)
	}
	b.hold(number, slab)
	b.add(number, 0)
	b.cold = len(b.free) // never touched yet
	return nil
}

func (b *bufferPool) newSlab() (memory []byte, number uint32, err error) {
	if b.vault != nil {
		return b.vault.Slab()
	}
	memory, err = unix.Mmap(-1, 0, slabBuffers*bufferSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	return memory, uint32(len(b.slabs)), err
}

// hold notes where a slab is.
func (b *bufferPool) hold(number uint32, slab []byte) {
	if missing := int(number) + 1 - len(b.slabs); missing > 0 {
		b.slabs = append(b.slabs, make([][]byte, missing)...)
	}
	b.slabs[number] = slab
}

// add frees the buffers of a slab, but for those that are in use: a bit for each.
func (b *bufferPool) add(number uint32, inUse uint64) {
	first := int32(number * slabBuffers)
	for i := int32(slabBuffers) - 1; i >= 0; i-- {
		if inUse&(1<<i) == 0 {
			b.free = append(b.free, first+i)
		}
	}
}

// trim gives the pages of free buffers back to the kernel but for the warmest,
// so that the memory of a burst does not stay for ever.
func (b *bufferPool) trim() {
	advice := unix.MADV_DONTNEED
	if b.vault != nil {
		advice = unix.MADV_REMOVE // the file has the pages, too
	}
	for ; b.cold < len(b.free)-trimAbove; b.cold++ {
		_ = unix.Madvise(b.bytes(b.free[b.cold]), advice)
	}
}

// close unmaps everything that is the pool's own. No buffer may be in use.
func (b *bufferPool) close() {
	for _, slab := range b.slabs {
		if b.vault == nil {
			_ = unix.Munmap(slab)
		}
	}
	*b = bufferPool{}
}
