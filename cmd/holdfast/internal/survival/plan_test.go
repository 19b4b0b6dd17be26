package survival

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// The two ends of a connection.
const (
	client = 0
	server = 1
)

// plan is what is to happen on one connection, and what has.
type plan struct {
	id     uint64
	route  *route
	mptcp  bool // the client asks for Multipath TCP
	resets int  // the end that resets; nobody = both end their streams
	ends   [2]script

	address netip.AddrPort // of the client; house.mu guards it
	found   bool           // by a child that restored, likewise

	mu      sync.Mutex
	outcome [2]*outcome // nil = not over
	seen    int         // by how many servers
	judged  bool
}

const nobody = -1

// script is what one end does.
type script struct {
	size   int64         // that it sends; math.MaxInt64 = until it cannot
	holds  bool          // it does not end its stream: the other end resets
	turns  []turn        // what must have come before what is sent; nil = nothing
	chunk  int           // largest write
	pauses float64       // share of writes that are followed by a pause
	pause  time.Duration // the longest
	urgent float64       // share of writes that are one urgent byte
	window int           // of the receive buffer; 0 = as it is
	stalls float64       // share of reads that are followed by a pause
	reads  chan struct{} // nothing is read before that is closed; nil = at once
	first  bool          // who resets ends its stream first
	seed   uint64
}

// turn lets bytes be sent up to a position after so many have come.
type turn struct{ upTo, after int64 }

// afterEnd is later than any byte.
const afterEnd = math.MaxInt64

// mayUpTo is up to where may be sent when so much has come.
func (s *script) mayUpTo(received int64, ended bool) int64 {
	for _, t := range s.turns {
		if t.after == afterEnd && !ended || t.after != afterEnd && received < t.after {
			return t.upTo
		}
	}
	return s.size
}

func (p *plan) key(end int) uint64 { return mix(p.id) + uint64(end)<<62 }

func (p *plan) String() string {
	kind := "both end"
	if p.mptcp {
		kind = "Multipath TCP, " + kind
	}
	if p.resets != nobody {
		kind = [2]string{"client", "server"}[p.resets] + " resets"
		if p.ends[p.resets].first {
			kind += " after its end"
		}
	}
	return fmt.Sprintf("connection %d by %s: %s; client sends %s, server %s", p.id, p.route.name, kind, p.ends[0].text(), p.ends[1].text())
}

func (s *script) text() string {
	size := fmt.Sprint(s.size)
	if s.size == math.MaxInt64 {
		size = "all"
	}
	return fmt.Sprintf("%s in ≤ %d (%d turns, pauses %.2f of %v, urgent %.2f, stalls %.2f, window %d)", size, s.chunk, len(s.turns), s.pauses, s.pause, s.urgent, s.stalls, s.window)
}

// newPlan makes one up. Most connections are short, so that there are many.
func newPlan(r *rand.Rand, id uint64, by *route, most int64) *plan {
	p := &plan{id: id, route: by, resets: nobody}
	for i := range p.ends {
		p.ends[i] = script{
			size: logUniform(r, 1, most), chunk: int(logUniform(r, 1, 256<<10)), seed: r.Uint64(),
			pauses: r.Float64() * 0.3, pause: time.Duration(logUniform(r, int64(50*time.Microsecond), int64(100*time.Millisecond))),
		}
		s := &p.ends[i]
		s.chunk = max(s.chunk, int(s.size/200)) // else it would take too long
		if r.IntN(4) == 0 {
			s.stalls = r.Float64() * 0.1
			s.window = 32 << 10 // in one of 4 KiB the kernel's own senders stall for a minute
		}
		if r.IntN(4) == 0 {
			s.urgent = 0.2
		}
	}
	for i := range p.ends { // through a small window little comes in a second
		if p.ends[1-i].window > 0 {
			p.ends[i].size = min(p.ends[i].size, 512<<10)
		}
	}
	switch r.IntN(6) {
	case 0, 1:
		p.talk(r)
	case 2: // the server answers when the client has ended
		p.ends[server].turns = []turn{{0, afterEnd}}
	}
	if r.IntN(4) == 0 {
		p.reset(r)
	}
	p.mptcp = by.network == "tcp" && r.IntN(8) == 0
	return p
}

// talk makes both speak in turn.
func (p *plan) talk(r *rand.Rand) {
	var sums [2]int64
	for i := range p.ends {
		p.ends[i].turns = nil
	}
	for range 1 + r.IntN(40) {
		for i := range p.ends {
			s := &p.ends[i]
			s.turns = append(s.turns, turn{sums[i], sums[1-i]})
			sums[i] += logUniform(r, 1, 3000)
		}
	}
	for i := range p.ends {
		s := &p.ends[i]
		s.size, s.pauses, s.pause = sums[i], 0.5, time.Duration(r.IntN(int(100*time.Millisecond)))
		s.chunk = 4 << 10
	}
}

// reset makes one end reset the connection, and the other go on until then.
func (p *plan) reset(r *rand.Rand) {
	p.resets = r.IntN(2)
	p.ends[p.resets].first = r.IntN(3) == 0
	other := &p.ends[1-p.resets]
	other.holds = true
	other.pauses, other.pause = 0.5, 10*time.Millisecond
	if p.ends[p.resets].first || r.IntN(2) == 0 {
		other.size = math.MaxInt64 // after an end only who sends hears of a reset
		other.pauses, other.pause = 1, 40*time.Millisecond
	}
	for i := range p.ends { // who waits for an end that never comes would wait for ever
		t := p.ends[i].turns
		if len(t) > 0 && t[0].after == afterEnd && (p.resets == i || !p.ends[p.resets].first) {
			p.ends[i].turns = nil
		}
	}
}

func logUniform(r *rand.Rand, least, most int64) int64 {
	return int64(math.Exp(math.Log(float64(least)) + r.Float64()*(math.Log(float64(most+1))-math.Log(float64(least)))))
}
