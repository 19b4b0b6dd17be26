package upstream

import (
	"maps"
	"sync"
	"sync/atomic"
	"weak"
)

// record is what is known of one address of a server. Generations of a pool that
// have the same server share it: each counts and judges there, and sees at once
// what the others did.
type record struct {
	connections atomic.Int64
	penaltyEnd  atomic.Int64 // on the callers' clock; 0 = none
	health      health
	lastError   atomic.Pointer[string] // nil when the last dial or probe worked
}

// records finds the record of each address of one server. Generations share it
// too, so that an address that two of them learn of has one record, whoever was
// first.
//
// It keeps nothing alive: a record is there for as long as an [Endpoint] refers
// to it, that of a pool or of a connection to an address which no pool has any
// more.
type records struct {
	mu    sync.Mutex
	known map[target]weak.Pointer[record]
}

func newRecords() *records {
	return &records{known: make(map[target]weak.Pointer[record])}
}

// of is the record of t, a new one if there is none.
func (r *records) of(t target) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.known[t].Value(); known != nil {
		return known
	}
	maps.DeleteFunc(r.known, func(_ target, p weak.Pointer[record]) bool { return p.Value() == nil })
	fresh := new(record)
	r.known[t] = weak.Make(fresh)
	return fresh
}

// connections is how many connections and dials there are, whichever generation
// opened them, also to addresses that the server has left.
func (r *records) connections() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.known {
		if known := p.Value(); known != nil {
			n += known.connections.Load()
		}
	}
	return n
}
