package relay

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/upstream"
)

// phase is where a pair stands.
//
//	accepted ──► header ──► dialing ⇄ waiting
//	    └───────────────────►│          │
//	                         ▼          │ no server in time,
//	                        open        │ or the client left
//	     both ended, │       │ one side │
//	     or hung up  │       ▼ reset    │
//	                 │    flushing      │
//	                 ▼       ▼          ▼
//	                 gone ◄──┴──────────┘
type phase uint8

const (
	gone     phase = iota // the slot is free
	accepted              // nothing was tried yet
	header                // waiting for the client's PROXY header
	dialing               // connect(2) is under way
	waiting               // every server failed: the client waits for the next round
	open                  // both sides are connected
	flushing              // to be reset once what was sent has arrived
)

// The two sides of a pair, and the two flows: flow[client] comes from the client.
const (
	client = 0
	server = 1
)

// side is one socket of a pair.
type side struct {
	fd         int32
	tcp        bool
	registered bool // in epoll
	readable   bool // may have more to read: set by an event, cleared by a short read
	writable   bool // may take more: set by an event, cleared by a short write
	hangup     bool // FIN, reset or urgent data are due: a short read proves nothing
	down       bool // the kernel says that both its directions are over
	broken     bool // sending to it is over: it was reset, or reads no more
	eaten      bool // its error was taken by a write: an end of file read from it is none
}

// flow is one direction of a pair.
type flow struct {
	state    flowState
	full     uint8  // reads in a row that filled the buffer: a bulk transfer
	small    uint8  // splices in a row that moved little: no longer one
	buf      int32  // noBuffer unless bytes are owed from it
	off, end uint32 // buf[off:end] is owed to the destination
	pipe     pipe   // noPipe unless in bulk mode, or toward a Unix socket
	piped    uint32 // bytes in the pipe, owed to the destination
	moved    int64  // bytes taken from the source, PROXY headers not counted
}

// flowState is how far a direction has come.
//
//	flowing ──FIN read──► ending ──all written, FIN sent──► done
//	   ├──source reset──► cut   (what is owed is still written)
//	   └──destination reset──► dead (what is owed is dropped)
type flowState uint8

const (
	flowing flowState = iota
	ending            // the source sent FIN; the destination gets one after what is owed
	done              // FIN has been passed on
	cut               // the source was reset; the destination is after what is owed
	dead              // the destination is broken: nothing is owed any more
)

// owes tells whether bytes of the source have not reached the destination's socket.
func (f *flow) owes() bool { return f.off < f.end || f.piped > 0 }

// pair is one client with its upstream.
type pair struct {
	serial uint64 // never reused: tells a late event of the slot's last user
	slot   uint32
	phase  phase
	queued bool // in the loop's queue
	family int  // of the server's socket
	side   [2]side
	flow   [2]flow

	kept      *slot  // what the next process knows of it; nil = it is not kept
	number    uint32 // of that slot in the vault
	resets    bool   // closing a side resets it
	headerIn  int64  // bytes of the PROXY header that the client sent
	headerOut int64  // bytes of the one that the server gets

	use      *use
	endpoint *upstream.Endpoint // nil when none is being tried
	tried    upstream.Tried
	peer     netip.AddrPort // the client, as its PROXY header says if it sent one
	local    netip.AddrPort // the address it connected to; only where a PROXY header told it

	opened   int64      // when it was accepted, on the loop's clock
	dialed   int64      // when the first server was tried
	active   int64      // when a byte last moved
	deadline int64      // when its phase times out
	rounds   uint8      // failed rounds over all servers
	unsent   int        // with a broken side: what had not arrived when last looked at, in bytes
	looked   int64      // while nothing moves: when its send queues were last looked at
	queues   int        // and what was in them
	lastErr  unix.Errno // why the last server was not reached

	timedPrev, timedNext *pair // the loop's list of pairs with a deadline
	timed                bool
}

// table holds the pairs of one loop. They never move, so that pointers stay
// good, and a freed slot is used again first.
type table struct {
	chunks [][]pair
	free   []uint32
}

const chunkPairs = 64

func (t *table) at(slot uint32) *pair {
	return &t.chunks[slot/chunkPairs][slot%chunkPairs]
}

func (t *table) take(serial uint64) *pair {
	if len(t.free) == 0 {
		first := uint32(len(t.chunks) * chunkPairs)
		t.chunks = append(t.chunks, make([]pair, chunkPairs))
		for i := uint32(chunkPairs); i > 0; i-- {
			t.free = append(t.free, first+i-1)
		}
	}
	slot := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	p := t.at(slot)
	*p = pair{slot: slot, serial: serial}
	for i := range p.side {
		p.side[i].fd = -1
		p.flow[i].buf, p.flow[i].pipe = noBuffer, noPipe
	}
	return p
}

func (t *table) put(p *pair) {
	*p = pair{slot: p.slot} // lets go of what it points to
	t.free = append(t.free, p.slot)
}

// each visits every pair that is not gone; visit may end the pair it is given.
func (t *table) each(visit func(*pair)) {
	for _, chunk := range t.chunks {
		for i := range chunk {
			if chunk[i].phase != gone {
				visit(&chunk[i])
			}
		}
	}
}
