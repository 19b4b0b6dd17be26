package vault

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

const (
	// sendBuffer makes room for some 555 records: the kernel counts 768 bytes for each
	// against twice this. It is the default limit of the unprivileged, wmem_max.
	sendBuffer = 212_992
	// mostRecords bounds a segment where there is more room. Restoring peeks at one
	// record after the other, and the kernel walks to each from the head.
	mostRecords = 1000
)

// segment is a SEQPACKET pair. What was sent into its one end and not received from
// the other keeps the connections.
//
//	         a writer needs one          full, or taken away
//	ready ──────────────────────▶ used ──────────────────────▶ idle
//	  ▲                                                          │
//	  └──────────────────────── at most half full ◀──────────────┘
//
// Only the writer that uses it appends to it, and the sweeper, under mu.
type segment struct {
	id      uint32
	place   int      // in the directory
	in, out *sock.FD // in is nil where a store has lost it

	state  atomic.Int32
	queued atomic.Int32 // records in the queue
	dead   atomic.Int32 // of these, as far as is known; the sweeper counts again
	due    atomic.Bool  // dead are as many as live

	mu     sync.Mutex
	mirror mirror
	gone   bool // it was given up; its ends are closed
	broken bool // the mirror is not what is in the queue: nobody may touch it
}

const (
	idle int32 = iota
	ready
	used
	leaving // it is to be given up
)

// entry is what the mirror knows of a record. Serial 0 is dead.
type entry struct {
	serial uint64
	slot   uint32
	count  int32 // of descriptors
}

func newSegment(id uint32) (*segment, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a segment of the vault: %w", err)
	}
	s := &segment{id: id, in: sock.NewFD(pair[0]), out: sock.NewFD(pair[1])}
	if err := unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer); err != nil {
		return nil, fmt.Errorf("make a segment of the vault: SO_SNDBUF: %w", errors.Join(err, s.close()))
	}
	return s, nil
}

// probeCapacity finds out how many records a segment has room for, less one, so that
// each can be swept by itself. It counts without descriptors: they take no room.
func probeCapacity() (int, error) {
	s, err := newSegment(0)
	if err != nil {
		return 0, err
	}
	e := newEnvelope()
	n := 0
	for n <= mostRecords && e.send(s.in.Raw(), 0) == 0 {
		n++
	}
	return n - 1, s.close()
}

func (s *segment) close() error {
	if s.in == nil {
		return s.out.Close()
	}
	return errors.Join(s.in.Close(), s.out.Close())
}

// append notes what was sent.
func (s *segment) append(e entry) {
	s.mirror.push(e)
	s.queued.Add(1)
}

// drop notes that the head was received.
func (s *segment) drop() entry {
	s.queued.Add(-1)
	return s.mirror.pop()
}

// mirror is a queue as its owner knows it: a ring that grows.
type mirror struct {
	ring       []entry // its length is a power of two
	head, tail uint32  // count on; modulo len(ring)
}

func (m *mirror) len() int {
	return int(m.tail - m.head)
}

func (m *mirror) at(i int) *entry {
	return &m.ring[(m.head+uint32(i))&uint32(len(m.ring)-1)]
}

func (m *mirror) push(e entry) {
	if m.len() == len(m.ring) {
		m.grow()
	}
	m.tail++
	*m.at(m.len() - 1) = e
}

func (m *mirror) pop() entry {
	e := *m.at(0)
	m.head++
	return e
}

// grow makes room for as many entries as a segment has at most, or doubles it.
func (m *mirror) grow() {
	size := 1024 // not less than mostRecords
	if len(m.ring) > 0 {
		size = 2 * len(m.ring)
	}
	ring := make([]entry, size)
	n := m.len()
	for i := range n {
		ring[i] = *m.at(i)
	}
	m.ring, m.head, m.tail = ring, 0, uint32(n)
}
