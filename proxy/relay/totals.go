package relay

import (
	"sync/atomic"
	"unsafe"
)

// totals are counts over the lives of all processes that had a vault, in its memory. Each
// process adds up what it found in one bank and counts in the other one, so that who is
// killed in between leaves the former bank to the next.
type totals struct {
	bank  uint32 // the one that counts, 0 or 1
	_     [60]byte
	banks [2]bank
}

// bank is what the processes before have counted, and each loop of this one.
type bank struct {
	before count
	loops  [countedLoops]count
}

// count is of connections and bytes.
type count struct{ accepted, failed, in, out int64 }

// countedLoops is how many loops have a place. What others count ends with the process.
const countedLoops = 48

// TotalsSize is how many bytes of a vault's memory a relay needs for its totals.
const TotalsSize = int(unsafe.Sizeof(totals{}))

// add adds what a count says now.
func (c *count) add(of *count) {
	c.accepted += atomic.LoadInt64(&of.accepted)
	c.failed += atomic.LoadInt64(&of.failed)
	c.in += atomic.LoadInt64(&of.in)
	c.out += atomic.LoadInt64(&of.out)
}

// set notes what a loop has counted. Nobody else writes there.
func (c *count) set(of *counters) {
	if n := of.accepted.Load(); n != c.accepted {
		atomic.StoreInt64(&c.accepted, n)
	}
	if n := of.failed.Load(); n != c.failed {
		atomic.StoreInt64(&c.failed, n)
	}
	if of.in != c.in {
		atomic.StoreInt64(&c.in, of.in)
	}
	if of.out != c.out {
		atomic.StoreInt64(&c.out, of.out)
	}
}

// mostCount is more than a host can count in its life.
const mostCount = 1 << 60

// begin is what was counted before, and begins to count in the other bank. What cannot have
// been counted was garbled, and all begin anew.
func (t *totals) begin() (before count, loops *[countedLoops]count) {
	now := atomic.LoadUint32(&t.bank) & 1
	former, next := &t.banks[now], &t.banks[1-now]
	before.add(&former.before)
	for i := range former.loops {
		before.add(&former.loops[i])
	}
	for _, n := range []int64{before.accepted, before.failed, before.in, before.out} {
		if n < 0 || n > mostCount {
			before = count{}
		}
	}
	*next = bank{before: before}
	atomic.StoreUint32(&t.bank, 1-now)
	return before, &next.loops
}

// resume counts on in the bank that this process counts in already.
func (t *totals) resume() *[countedLoops]count { return &t.banks[atomic.LoadUint32(&t.bank)&1].loops }
