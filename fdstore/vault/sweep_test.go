package vault_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

func TestSweepingClosesTheDeadAndKeepsTheLiving(t *testing.T) {
	v := newVault(t, options())
	w := v.Writer(0)
	var conns []*conn
	var slots []uint32
	for i := range uint64(10) {
		conns = append(conns, newConn(t))
		slots = append(slots, keep(t, w, i, conns[i]))
	}
	for i, slot := range slots {
		if i%3 != 0 { // the living are in the way, the first one too
			w.Drop(slot)
		}
	}
	v.Sweep()
	assert.Equal(t, 4, v.Queued())
	st := v.Stats()
	assert.Equal(t, []int{4, 0, 8}, []int{st.Kept, st.Dead, st.InFlight})
	for i, c := range conns {
		assert.Equal(t, i%3 != 0, c.isGone(t))
	}
	_, found := restore(t, options(), left(t, v))
	assert.Equal(t, []uint64{0, 3, 6, 9}, ids(found))
	for _, k := range found.Kept {
		conns[idOf(k)].passes(t, k.FDs)
	}
}

func TestWhatWasDroppedIsClosedWithoutBeingAskedFor(t *testing.T) {
	v := newVault(t, options())
	w := v.Writer(0)
	live, dead := newConn(t), newConn(t)
	keep(t, w, 0, live)
	w.Drop(keep(t, w, 1, dead))
	require.Eventually(t, func() bool { return dead.isGone(t) }, 2*soon, 10*time.Millisecond)
	assert.False(t, live.isGone(t))
}

func TestAWriterThatNeverStopsNeedsNoMoreSegments(t *testing.T) {
	o := options()
	o.InFlight = 1500
	v := newVault(t, o)
	w := v.Writer(0)
	fd := eventfd(t)
	slots := fill(t, w, 300, fd) // the living, which are in the way
	for range 20_000 {
		i := rand.IntN(len(slots))
		w.Drop(slots[i])
		slots[i] = fill(t, w, 1, fd)[0]
	}
	assert.Equal(t, 300, v.Stats().Kept)
	assert.Less(t, v.Stats().Segments, 40, "they hold more than 20,000 records")
	_, found := restore(t, o, left(t, v))
	assert.Len(t, ids(found), 300)
}

func TestASegmentThatIsTooFullIsSweptWithTheHelpOfAnother(t *testing.T) {
	v := newVault(t, options())
	w := v.Writer(0)
	slots := fill(t, w, 300, eventfd(t))
	for _, slot := range slots[100:] {
		w.Drop(slot)
	}
	v.SetCapacity(250) // of a former life, with other limits of the kernel
	v.Sweep()
	assert.Equal(t, 100, v.Queued())
	_, found := restore(t, options(), left(t, v))
	assert.Len(t, ids(found), 100)
}

func TestAProcessWithoutDescriptorsSweepsLater(t *testing.T) {
	v := newVault(t, options())
	w := v.Writer(0)
	fd := eventfd(t)
	slots := fill(t, w, 3, fd)
	w.Drop(slots[1])
	w.Drop(slots[2])
	withoutDescriptors(t, func() {
		v.Sweep()
		assert.Equal(t, 3, v.Queued(), "a living one is in the way")
		w.Drop(slots[0])
		v.Sweep()
		assert.Zero(t, v.Queued(), "the dead need none")
	})
}

// withoutDescriptors lets this process open no more while f runs.
func withoutDescriptors(t *testing.T, f func()) {
	t.Helper()
	withSome(t, 0, f)
}

// withSome lets this process open so many more descriptors while f runs.
func withSome(t *testing.T, n int, f func()) {
	t.Helper()
	var spare []int
	for range n + 1 {
		raw, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		spare = append(spare, raw)
	}
	for _, raw := range spare {
		require.NoError(t, unix.Close(raw))
	}
	withLimit(t, uint64(spare[n]), f)
}

func TestUnixSocketsInTheQueuesSurviveTheGarbageCollector(t *testing.T) {
	var conns []*conn
	held := died(t, options(), func(v *vault.Vault) {
		for i := range uint64(100) {
			conns = append(conns, newConn(t))
			keep(t, v.Writer(0), i, conns[i])
		}
	})
	for range 300 { // pairs that are in each other's queues make it run
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		for _, raw := range pair {
			require.NoError(t, sock.SendRights(raw, []byte("x"), pair[:]))
		}
		require.NoError(t, unix.Close(pair[0]))
		require.NoError(t, unix.Close(pair[1]))
	}
	_, found := restore(t, options(), held)
	require.Len(t, ids(found), 100)
	for _, k := range found.Kept {
		conns[idOf(k)].passes(t, k.FDs)
	}
}
