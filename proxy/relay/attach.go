package relay

import (
	"math"
	"unsafe"
)

// Attach has connections kept from now on, those that are there too as far as nothing is
// under way on them: vaults has one for each loop, and memory is TotalsSize bytes that
// the next process finds too. notes are what another process has left there, by number;
// Restore has to follow then. It is called at any time, and again only after LetGo.
func (r *Relay) Attach(vaults []Vault, memory []byte, notes map[uint32][]byte) {
	loops := r.attachTotals(memory)
	r.findTallies(vaults[0], notes)
	r.keeping.Store(false) // until all loops have the vault: they hand each other clients
	r.vaults.Store(&vaults)
	r.eachWait(func(l *loop) {
		l.attach(vaults[l.index])
		if l.index < len(loops) {
			l.total = &loops[l.index]
		}
	})
	r.keeping.Store(true)
	r.eachWait(func(l *loop) { l.keepUnkept(math.MaxInt) })
}

// attachTotals goes on with the counts of the processes before this one.
func (r *Relay) attachTotals(memory []byte) *[countedLoops]count {
	t := (*totals)(unsafe.Pointer(&memory[:TotalsSize][0]))
	if r.before.Load() != nil {
		return t.resume()
	}
	before, loops := t.begin()
	r.before.Store(&before)
	return loops
}

// ResetAtDeath tells whether every connection is reset when the process is killed: a vault
// is to be attached, or nobody else has the one that is. Else those are that are not kept
// where there is a vault.
func (r *Relay) ResetAtDeath(on bool) {
	if r.resets.Swap(on) != on {
		r.eachWait(func(l *loop) { l.pairs.each(l.settleDeath) })
	}
}

// SetKeeping tells whether new connections are kept, where a vault is attached. Those
// that are kept stay so.
func (r *Relay) SetKeeping(on bool) { r.keeping.Store(on) }

// anyVault is one of the vaults, nil where there is none.
func (r *Relay) anyVault() Vault {
	if all := r.vaults.Load(); all != nil {
		return (*all)[0]
	}
	return nil
}

func (l *loop) attach(v Vault) {
	l.vault, l.shared = v, newSharedMemory(l.relay, v)
	l.pairs.each(l.beginUnkept) // none is kept: nothing was, before
	l.describeUses()
}

// describeUses notes what the sockets are used for, as far as there is room.
func (l *loop) describeUses() {
	for _, w := range l.watches {
		if w != nil {
			l.relay.describe(w.socket.current.Load())
		}
	}
}
