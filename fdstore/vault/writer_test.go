package vault_test

import (
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

func TestWhatIsKeptIsFoundWithItsMemoryAndDescriptors(t *testing.T) {
	conns := []*conn{newConn(t), newConn(t), newConn(t)}
	held := died(t, options(), func(v *vault.Vault) {
		w := v.Writer(0)
		for i, c := range conns {
			keep(t, w, uint64(i), c)
		}
	})
	v, found := restore(t, options(), held)
	assert.Empty(t, found.Lost)
	require.Equal(t, []uint64{0, 1, 2}, ids(found))
	for _, k := range found.Kept {
		assert.Len(t, k.Memory, 240)
		conns[idOf(k)].passes(t, k.FDs)
	}
	assert.Equal(t, 3, v.Stats().Kept)
	assert.Equal(t, 6, v.Stats().InFlight)
}

func TestOneDescriptorIsKeptLikeTwo(t *testing.T) {
	held := died(t, options(), func(v *vault.Vault) {
		fill(t, v.Writer(0), 1, eventfd(t))
	})
	v, found := restore(t, options(), held)
	require.Len(t, ids(found), 1)
	assert.GreaterOrEqual(t, found.Kept[0].FDs[0], int32(0))
	assert.EqualValues(t, -1, found.Kept[0].FDs[1])
	assert.Equal(t, 1, v.Stats().InFlight)
}

func TestWhatWasDroppedIsNotFound(t *testing.T) {
	c := newConn(t)
	held := died(t, options(), func(v *vault.Vault) {
		w := v.Writer(0)
		w.Drop(keep(t, w, 1, c))
		w.Drop(0) // once more does nothing
	})
	v, found := restore(t, options(), held)
	assert.Empty(t, found)
	assert.Zero(t, v.Stats().Kept)
	require.Eventually(t, func() bool { v.Sweep(); return c.isGone(t) }, soon, time.Millisecond)
}

func TestASlotThatWasNotKeptIsFreeInTheNextLife(t *testing.T) {
	o := options()
	o.Slots = 2
	held := died(t, o, func(v *vault.Vault) {
		w := v.Writer(0)
		slot, _, ok := w.Take()
		require.True(t, ok)
		require.False(t, w.Keep(slot, 1<<20, -1)) // not open
		for range o.Slots {
			_, _, ok = w.Take() // and no more
			require.True(t, ok)
		}
	})
	v, found := restore(t, o, held)
	assert.Empty(t, found)
	assert.Len(t, fill(t, v.Writer(0), 2, eventfd(t)), 2)
}

func TestASlotIsUsedAgainAndZeroThen(t *testing.T) {
	o := options()
	o.Slots = 1
	v := newVault(t, o)
	w := v.Writer(0)
	for range 3 {
		slot, memory, ok := w.Take()
		require.True(t, ok)
		assert.Zero(t, slot)
		assert.Equal(t, make([]byte, 240), memory)
		for i := range memory {
			memory[i] = 0xff
		}
		_, _, ok = w.Take()
		require.False(t, ok, "there is one slot")
		require.True(t, w.Keep(slot, int32(eventfd(t)), -1))
		w.Drop(slot)
	}
	assert.EqualValues(t, 3, v.Stats().Refused)
	assert.Contains(t, v.Stats().Lacking, "slot")
}

func TestADescriptorThatIsNotOpenIsNotKept(t *testing.T) {
	v := newVault(t, options())
	w := v.Writer(0)
	slot, _, ok := w.Take()
	require.True(t, ok)
	require.False(t, w.Keep(slot, 1<<20, -1))
	assert.Zero(t, v.Serial(slot))
	again, _, ok := w.Take()
	require.True(t, ok)
	assert.Equal(t, slot, again, "it is free")
	st := v.Stats()
	assert.Zero(t, st.InFlight)
	assert.Zero(t, st.Kept)
}

func TestInFlightIsBounded(t *testing.T) {
	o := options()
	o.InFlight = 5
	v := newVault(t, o)
	w := v.Writer(0)
	var slots []uint32
	for i := range uint64(2) {
		slots = append(slots, keep(t, w, i, newConn(t)))
	}
	slot, _, _ := w.Take()
	a, b := newConn(t).raw()
	require.False(t, w.Keep(slot, a, b))
	assert.Contains(t, v.Stats().Lacking, "in flight")
	assert.False(t, v.Stats().OfStore)
	slot, _, _ = w.Take()
	require.True(t, w.Keep(slot, a, -1))
	assert.Equal(t, 5, v.Stats().InFlight)
	for _, slot := range slots {
		w.Drop(slot)
	}
	require.Eventually(t, func() bool { // within a second, as there was no room
		slot, _, ok := w.Take()
		return ok && w.Keep(slot, a, b)
	}, soon, time.Millisecond)
}

func TestAnyGoroutineDropsWhatAnyWriterHasKept(t *testing.T) {
	o := options()
	o.Writers = 4
	v := newVault(t, o)
	fd := eventfd(t)
	slots := make(chan uint32, 16)
	var keepers, droppers sync.WaitGroup
	for i := range o.Writers {
		keepers.Go(func() {
			w := v.Writer(i)
			for range 1000 {
				slot, memory, ok := w.Take()
				if !ok {
					continue
				}
				assert.Zero(t, binary.NativeEndian.Uint64(memory))
				memory[0] = 1
				if w.Keep(slot, int32(fd), int32(fd)) {
					slots <- slot
				}
			}
		})
		droppers.Go(func() {
			for slot := range slots {
				v.Writer(0).Drop(slot)
			}
		})
	}
	keepers.Wait()
	close(slots)
	droppers.Wait()
	assert.Zero(t, v.Stats().Kept)
	require.Eventually(t, func() bool { v.Sweep(); return v.Queued() == 0 }, soon, time.Millisecond)
	assert.Zero(t, v.Stats().InFlight)
}

func TestShortConnectionsLeaveNothingToTheSweeper(t *testing.T) {
	v := newVault(t, options())
	w := v.Writer(0)
	fd := int32(eventfd(t))
	for range 100 { // less than what it is woken for
		slot, _, ok := w.Take()
		require.True(t, ok)
		require.True(t, w.Keep(slot, fd, fd))
		w.Drop(slot)
		require.LessOrEqual(t, v.Queued(), 1)
	}
	assert.Equal(t, 2, v.Stats().InFlight)
}

func TestKeepingDoesNotAllocate(t *testing.T) {
	v := newVault(t, options())
	w := v.Writer(0)
	fd := int32(eventfd(t))
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if slot, _, ok := w.Take(); ok && w.Keep(slot, fd, fd) {
			w.Drop(slot)
		}
	}))
}
