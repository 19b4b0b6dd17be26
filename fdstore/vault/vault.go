package vault

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore"
)

// Vault keeps connections for the next process. Its methods may be called from any
// goroutine.
type Vault struct {
	o       Options
	table   *table
	slots   *slots
	notes   notes
	slabs   slabs
	writers []Writer

	inFlight atomic.Int64 // descriptors in all queues
	kept     atomic.Int64 // live records
	refused  atomic.Uint64
	lack     atomic.Int32 // why the last of them was, an errno
	capacity atomic.Int32 // records that a segment is given at most

	ready  chan *segment             // with room, and used by nobody
	places []atomic.Pointer[segment] // as in the directory; nil = none
	taken  atomic.Int64              // segments that were taken from ready, for grow

	changing sync.Mutex     // held while the store is talked to
	store    *fdstore.Store // nil = nobody keeps
	foreign  bool           // what a store has under the vault's names is not this vault

	listing sync.Mutex // held while the directory changes
	lent    int        // how many have the list of files: it does not change then
	late    []*segment // that were made meanwhile

	sweepWanted chan struct{}
	growWanted  chan struct{}
	short       atomic.Bool // something was refused for want of room in flight
	end         context.CancelFunc
	ended       sync.WaitGroup
}

// New makes an empty vault, which nobody but this process has until Entrust.
func New(o Options) (*Vault, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("make a vault: %w", err)
	}
	if o.Slots < 0 || o.Slots > mostSlots {
		return nil, fmt.Errorf("make a vault: %d slots are not between 1 and %d", o.Slots, mostSlots)
	}
	l := newLayout(o.Slots, noteCount, slabCount, pairCount)
	l.userFormat, l.userReaders = o.Format, o.ReadBy
	t, err := newTable(l)
	if err != nil {
		return nil, err
	}
	v := newVault(o, t)
	v.foreign = true
	if err := v.addFirst(); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	v.begin()
	return v, nil
}

func newVault(o Options, t *table) *Vault {
	v := &Vault{
		o:           o,
		table:       t,
		slots:       newSlots(t),
		notes:       newNotes(t),
		slabs:       newSlabs(t),
		ready:       make(chan *segment, t.pairs),
		places:      make([]atomic.Pointer[segment], t.pairs),
		sweepWanted: make(chan struct{}, 1),
		growWanted:  make(chan struct{}, 1),
		end:         func() {},
	}
	v.capacity.Store(mostRecords)
	if n, err := probeCapacity(); err == nil { // else it is learned
		v.capacity.Store(int32(n))
	}
	v.writers = make([]Writer, o.Writers)
	for i := range v.writers {
		v.writers[i] = Writer{vault: v, envelope: newEnvelope()}
	}
	return v
}

// addFirst sees to it that each writer has a segment to begin with.
func (v *Vault) addFirst() error {
	n := v.wantReady() - len(v.ready)
	if n <= 0 {
		return nil
	}
	segments, err := v.makeSegments(n)
	if err != nil {
		return err
	}
	v.publish(segments)
	return nil
}

// begin puts the vault into service.
func (v *Vault) begin() {
	v.table.uint32At(atOwner).Store(uint32(unix.Getpid()))
	ctx, end := context.WithCancel(context.Background())
	v.end = end
	v.ended.Go(func() { v.sweep(ctx) })
	v.ended.Go(func() { v.grow(ctx) })
}

// Close ends the vault for this process, and closes its copies of the segments and
// the table: what it gave out of the table is no longer there, not a byte may be
// touched. The descriptors of the connections are the caller's, and the store keeps
// what it has. Only the first call does anything.
func (v *Vault) Close() error {
	v.end()
	v.ended.Wait()
	v.changing.Lock()
	defer v.changing.Unlock()
	if v.table.mem == nil {
		return nil
	}
	v.table.uint32At(atOwner).CompareAndSwap(uint32(unix.Getpid()), 0) // its numbers are closed
	v.table.untry()
	var errs []error
	for _, s := range v.takeLate() {
		errs = append(errs, s.close())
	}
	for i := range v.places {
		if s := v.places[i].Swap(nil); s != nil {
			errs = append(errs, s.close())
		}
	}
	return errors.Join(append(errs, v.table.close())...)
}

// Writer gives one of the writers, counted from 0. It is for one goroutine.
func (v *Vault) Writer(i int) *Writer {
	return &v.writers[i]
}

// Common is the user's page, 4096 bytes of the table.
func (v *Vault) Common() []byte {
	start := v.table.commonAt
	return v.table.mem[start : start+pageSize : start+pageSize]
}

// segments are all that there are.
func (v *Vault) segments(yield func(*segment) bool) {
	for i := range v.places {
		if s := v.places[i].Load(); s != nil && !yield(s) {
			return
		}
	}
}
