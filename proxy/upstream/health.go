package upstream

import (
	"sync/atomic"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// health is whether an endpoint is up, as its probes and dials tell.
//
//	     fall failures in a row
//	up ──────────────────────────▶ down
//	   ◀──────────────────────────
//	     rise successes in a row
//
// It starts up. The zero value has no health checks and stays up.
type health struct {
	rise, fall uint32
	state      atomic.Uint32 // healthState, changed by compare and swap
}

// configure sets the limits before first use. nil = no health checks.
func (h *health) configure(cfg *config.Health) {
	if cfg != nil {
		h.rise, h.fall = uint32(cfg.Rise), uint32(cfg.Fall)
	}
}

func (h *health) down() bool { return healthState(h.state.Load()).down() }

// record takes one result and tells whether it changed the state.
func (h *health) record(ok bool) (changed bool) {
	if h.fall == 0 {
		return false
	}
	for {
		before := healthState(h.state.Load())
		after := before.after(ok, h.rise, h.fall)
		if after == before {
			return false
		}
		if h.state.CompareAndSwap(uint32(before), uint32(after)) {
			return after.down() != before.down()
		}
	}
}

// healthState is the state in the top bit and, below it, how many results in a
// row have spoken against it.
type healthState uint32

const downBit healthState = 1 << 31

func (s healthState) down() bool { return s&downBit != 0 }

// after is the state that follows one more result.
func (s healthState) after(ok bool, rise, fall uint32) healthState {
	state, against := s&downBit, uint32(s&^downBit)
	if ok != s.down() { // the result confirms the state
		return state
	}
	against++
	limit := fall
	if s.down() {
		limit = rise
	}
	if against >= limit {
		return state ^ downBit
	}
	return state | healthState(against)
}
