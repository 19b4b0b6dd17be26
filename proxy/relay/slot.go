package relay

import (
	"net/netip"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// slot is what the next process must know of a connection, in memory that outlives
// this one. It may be read after any instruction of this process, so each field is
// written by one store, before whatever makes it true; SlotFormat is the number of
// this layout.
//
// A stream position counts the bytes of a flow from its first one on. What the kernel
// counts differs by a constant: a PROXY header, the SYN.
type slot struct {
	state  uint32 // slotState
	flags  uint32
	note   uint32 // of the use it was accepted by
	headed uint32 // 1 = its client begins with a PROXY header; a version before this field left 0
	opened int64  // when it was accepted, in nanoseconds since 1970
	peer   slotAddr
	local  slotAddr
	flow   [2]slotFlow
	idle   int64 // for how long nothing had moved, in nanoseconds,
	moved  int64 // when so many bytes had, both ways
}

type slotFlow struct {
	before int64 // bytes that the source gave before position 0: a PROXY header
	beyond int64 // bytes that the destination took before position 0: its SYN, a PROXY header
	start  int64 // position of the first byte in the buffer
	zero   int64 // Unix source: position at which its counter was set
	next   int64 // Unix source: position at which its counter is being set, 0 = it is not
	told   int64 // position up to which a Unix destination was written, + 1; 0 = that is not known, as below position 0
	buffer uint32
	pipe   uint32 // slot of its pipe + 1, 0 = it has none
}

// slotAddr is a netip.AddrPort; family 0 is the zero one.
type slotAddr struct {
	ip     [16]byte
	zone   uint32
	port   uint16
	family uint16
}

// slotState is how far a connection has come. What a state promises is in the slot
// before it is stored.
type slotState = uint32

const (
	slotDialing slotState = iota // nothing has moved: a server is to be dialled, again perhaps
	slotOpen                     // bytes may have moved
	slotEnded                    // both sockets are to be shut down
	slotReset                    // both sockets are to be reset
	slotPipe                     // no connection, but a pipe
)

// The flags: two each, for the flow or the side of client and server.
const (
	flagDone   = 1 << 0 // flow.state is done
	flagBroken = 1 << 2
	flagEaten  = 1 << 4
	allFlags   = 1<<6 - 1
)

func slotIn(memory []byte) *slot { return (*slot)(unsafe.Pointer(&memory[0])) }

func (s *slot) setState(state slotState) { atomic.StoreUint32(&s.state, state) }

// setFlags notes what a pair has become.
func (s *slot) setFlags(p *pair) {
	var flags uint32
	for i := range p.side {
		if p.flow[i].state == done {
			flags |= flagDone << i
		}
		if p.side[i].broken {
			flags |= flagBroken << i
		}
		if p.side[i].eaten {
			flags |= flagEaten << i
		}
	}
	atomic.StoreUint32(&s.flags, flags)
}

func (s *slot) has(flag uint32, i int) bool { return s.flags&(flag<<i) != 0 }

func (a *slotAddr) set(ap netip.AddrPort) {
	*a = slotAddr{ip: ap.Addr().As16(), port: ap.Port(), family: unix.AF_INET6}
	switch {
	case !ap.IsValid():
		*a = slotAddr{}
	case ap.Addr().Is4():
		a.family = unix.AF_INET
	}
	if zone := ap.Addr().Zone(); zone != "" { // of an empty one the error would be allocated
		n, _ := strconv.ParseUint(zone, 10, 32)
		a.zone = uint32(n)
	}
}

func (a *slotAddr) get() netip.AddrPort {
	addr := netip.AddrFrom16(a.ip)
	switch {
	case a.family == unix.AF_INET:
		addr = addr.Unmap()
	case a.family != unix.AF_INET6:
		return netip.AddrPort{}
	case a.zone != 0:
		addr = addr.WithZone(strconv.FormatUint(uint64(a.zone), 10))
	}
	return netip.AddrPortFrom(addr, a.port)
}
