package upstream

import (
	"sync/atomic"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// limits is how many results in a row change a health. The zero value is for a
// pool without health checks.
type limits struct {
	rise, fall uint32
}

// limitsOf is those of a configuration; nil = no health checks.
func limitsOf(cfg *config.Health) limits {
	if cfg == nil {
		return limits{}
	}
	return limits{rise: uint32(cfg.Rise), fall: uint32(cfg.Fall)}
}

func (l limits) off() bool { return l.fall == 0 }

// health is whether an address is up, as its probes and dials tell.
//
//	     fall failures in a row
//	up ──────────────────────────▶ down
//	   ◀──────────────────────────
//	     rise successes in a row
//
// It starts up. Each result comes with the limits of the pool that has it: those
// of two generations may differ.
type health struct {
	state atomic.Uint32 // healthState, changed by compare and swap
}

func (h *health) down() bool { return healthState(h.state.Load()).down() }

// record takes one result and tells whether the log has yet to say what follows
// from it. It tells so at each result until report was called, since the
// generation whose result made the change may not be the one that logs it.
func (h *health) record(ok bool, l limits) (news bool) {
	for {
		before := healthState(h.state.Load())
		after := before.after(ok, l)
		if after == before || h.state.CompareAndSwap(uint32(before), uint32(after)) {
			return after.news()
		}
	}
}

// report is for who logs a change: it tells what to log, to one caller only.
func (h *health) report() (down, news bool) {
	for {
		s := healthState(h.state.Load())
		if !s.news() {
			return s.down(), false
		}
		if h.state.CompareAndSwap(uint32(s), uint32(s^reportedBit)) {
			return s.down(), true
		}
	}
}

// beginDown makes it down, as another process has told and its log has said, until the first
// good result. After a bad one it is as any other that is down.
func (h *health) beginDown(l limits) { h.state.Store(uint32(stateBits | healthState(l.rise-1))) }

// forget makes it up, as at the start.
func (h *health) forget() { h.state.Store(0) }

// healthState is the state in the top bit, below it the state that the log has
// told, and in the other bits how many results in a row have spoken against it.
type healthState uint32

const (
	downBit     healthState = 1 << 31
	reportedBit healthState = 1 << 30
	stateBits               = downBit | reportedBit
)

func (s healthState) down() bool { return s&downBit != 0 }

// news is whether the log has told something else.
func (s healthState) news() bool { return s.down() != (s&reportedBit != 0) }

// after is the state that follows one more result.
func (s healthState) after(ok bool, l limits) healthState {
	state, against := s&stateBits, uint32(s&^stateBits)
	if ok != s.down() { // the result confirms the state
		return state
	}
	against++
	limit := l.fall
	if s.down() {
		limit = l.rise
	}
	if against >= limit {
		return state ^ downBit
	}
	return state | healthState(against)
}
