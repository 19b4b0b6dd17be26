package relay

import (
	"sync"

	"golang.org/x/sys/unix"
)

// doubles are the clients of connections that are to be dialled, by SO_COOKIE. One is
// found twice if the other process was killed while it gave it another socket for its
// server (rekeep).
type doubles map[uint64]bool

func (d doubles) found(k Kept) bool {
	if slotIn(k.Memory).state != slotDialing || k.FDs[client] < 0 {
		return false
	}
	cookie, err := unix.GetsockoptUint64(int(k.FDs[client]), unix.SOL_SOCKET, unix.SO_COOKIE)
	was := d[cookie]
	d[cookie] = true
	return err == nil && was
}

// discard gives up a slot, and does nothing to its connection.
func discard(v Vault, k Kept) {
	v.Drop(k.Slot)
	for _, fd := range k.FDs {
		if fd >= 0 {
			closeFD(fd)
		}
	}
}

// leftovers are what another process has left beside its connections, for these to find
// again, in whatever loop.
type leftovers struct {
	pipes   leftPipes
	buffers leftBuffers
}

func newLeftovers() *leftovers {
	return &leftovers{leftPipes{fds: make(map[uint32]int32)}, leftBuffers{inUse: make(map[uint32]uint64)}}
}

// leftPipes are the pipes.
type leftPipes struct {
	mu  sync.Mutex
	fds map[uint32]int32 // by slot
}

// take gives out the pipe of a slot once.
func (p *leftPipes) take(number uint32) (pipe, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fd, ok := p.fds[number]
	if !ok {
		return noPipe, false
	}
	delete(p.fds, number)
	return pipe{fd, number, kindOf(fd)}, true
}

// close closes those that no connection has.
func (p *leftPipes) close(v Vault) {
	for number, fd := range p.fds {
		v.Drop(number)
		closeFD(fd)
	}
}

// leftBuffers are the buffers. What a connection owes stays where it is: a process that
// is to be at home in as much memory as the one before has none for copies.
type leftBuffers struct {
	mu    sync.Mutex
	inUse map[uint32]uint64 // by slab: a bit for each that a connection has
}

// take gives out a buffer once, with the slab that it is in.
func (b *leftBuffers) take(v Vault, number uint32) (slab []byte, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	in, bit := number/slabBuffers, uint64(1)<<(number%slabBuffers)
	slab, ok = v.AdoptSlab(in)
	if !ok || b.inUse[in]&bit != 0 {
		return nil, false
	}
	b.inUse[in] |= bit
	return slab, true
}
