package vault_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

// nextLife restores what a manager keeps.
func nextLife(t *testing.T, m *storetest.Manager) (*vault.Vault, vault.Found, *fdstore.Store) {
	t.Helper()
	require.NoError(t, m.Notifier().Barrier(t.Context()))
	store, held := open(t, m, m.Pass())
	v, found := restore(t, options(), held)
	return v, found, store
}

func namesOf(v *vault.Vault) []string {
	files, release := v.Files()
	defer release()
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	slices.Sort(names)
	return names
}

// assertStored checks that the store has the vault, which may be growing, and no other.
func assertStored(t *testing.T, v *vault.Vault, store *fdstore.Store) {
	t.Helper()
	assert.Eventually(t, func() bool { return slices.Equal(namesOf(v), store.Names()) }, soon, time.Millisecond)
}

func TestAStoreKeepsTheVaultFromLifeToLife(t *testing.T) {
	m := storetest.Start(t, 100)
	store, _ := open(t, m, nil)
	v := newVault(t, options())
	c := newConn(t)
	keep(t, v.Writer(0), 7, c)
	require.NoError(t, v.Entrust(t.Context(), store))
	assertStored(t, v, store)
	assert.Equal(t, "vault/table", m.Names()[len(m.Names())-1], "what was pushed first is passed last")
	require.NoError(t, v.Close())

	for range 3 {
		v, found, store := nextLife(t, m)
		require.Equal(t, []uint64{7}, ids(found))
		c.passes(t, found.Kept[0].FDs)
		require.NoError(t, v.Entrust(t.Context(), store), "what it has is not pushed again")
		assertStored(t, v, store)
		require.NoError(t, v.Close())
	}
}

func TestAVaultThatWasNotRestoredIsReplaced(t *testing.T) {
	m := storetest.Start(t, 100)
	store, _ := open(t, m, nil)
	old := newVault(t, options())
	fill(t, old.Writer(0), 1, eventfd(t))
	require.NoError(t, old.Entrust(t.Context(), store))
	require.NoError(t, old.Close())

	store, held := open(t, m, m.Pass())
	closeHeld(t, held)
	v := newVault(t, options())
	fill(t, v.Writer(0), 2, eventfd(t))
	require.NoError(t, v.Entrust(t.Context(), store))
	require.NoError(t, v.Close())
	_, found, _ := nextLife(t, m)
	assert.Len(t, ids(found), 2)
}

func TestAnotherStoreTakesTheVaultOver(t *testing.T) {
	m, other := storetest.Start(t, 100), storetest.Start(t, 100)
	store, _ := open(t, m, nil)
	v := newVault(t, options())
	fill(t, v.Writer(0), 1, eventfd(t))
	require.NoError(t, v.Entrust(t.Context(), nil))
	require.NoError(t, v.Entrust(t.Context(), store))
	second, _ := open(t, other, nil)
	require.NoError(t, v.Entrust(t.Context(), second))
	assertStored(t, v, second)
	require.NoError(t, v.Entrust(t.Context(), second))
	require.NoError(t, v.Close())
	_, found, _ := nextLife(t, other)
	assert.Len(t, ids(found), 1)
}

func TestAWithdrawnVaultIsInNoStore(t *testing.T) {
	m := storetest.Start(t, 100)
	store, _ := open(t, m, nil)
	v := newVault(t, options())
	require.NoError(t, v.Withdraw(t.Context()), "nobody has it")
	require.NoError(t, v.Entrust(t.Context(), store))
	require.NoError(t, v.Withdraw(t.Context()))
	require.NoError(t, m.Notifier().Barrier(t.Context()))
	assert.Empty(t, m.Names())
	fill(t, v.Writer(0), 1500, eventfd(t)) // it can grow, and pushes nothing
	assert.Empty(t, store.Names())
	require.NoError(t, v.Withdraw(t.Context()))
}

func TestAWithdrawalThatFailsCanBeTriedAgain(t *testing.T) {
	m := storetest.Start(t, 100)
	line := &silent{Manager: m.Notifier()}
	store, err := fdstore.Open(t.Context(), line, fdstore.Returned{}, fdstore.Options{})
	require.NoError(t, err)
	v := newVault(t, options())
	require.NoError(t, v.Entrust(t.Context(), store))
	line.muted.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, v.Withdraw(ctx), context.DeadlineExceeded)
	line.muted.Store(false)
	require.NoError(t, v.Withdraw(t.Context()))
	require.NoError(t, m.Notifier().Barrier(t.Context()))
	assert.Empty(t, m.Names())
}

func TestAStoreWithoutRoomForTheVault(t *testing.T) {
	m := storetest.Start(t, 4)
	store, _ := open(t, m, nil)
	v := newVault(t, options())
	var full *fdstore.FullError
	require.ErrorAs(t, v.Entrust(t.Context(), store), &full)
	assert.Empty(t, store.Names())
	fill(t, v.Writer(0), 1, eventfd(t))
	m.Resize(100)
	require.NoError(t, v.Entrust(t.Context(), store))
	assertStored(t, v, store)
}

func TestAVaultGrowsBeforeItHasTo(t *testing.T) {
	m := storetest.Start(t, 200)
	store, _ := open(t, m, nil)
	v := newVault(t, options())
	require.NoError(t, v.Entrust(t.Context(), store))
	fill(t, v.Writer(0), 3000, eventfd(t))
	assert.GreaterOrEqual(t, v.Stats().Segments, 5)
	// Each segment that there is may be in use, and is in the store.
	assertStored(t, v, store)
	require.NoError(t, v.Close())
	_, found, _ := nextLife(t, m)
	assert.Len(t, ids(found), 3000)
}

func TestAFullStoreLeavesConnectionsUnkeptUntilThereIsRoom(t *testing.T) {
	m := storetest.Start(t, 6) // the table, two segments and the canary
	store, _ := open(t, m, nil)
	v := newVault(t, options())
	require.NoError(t, v.Entrust(t.Context(), store))
	w := v.Writer(0)
	fd := int32(eventfd(t))
	var slots []uint32
	for {
		slot, _, ok := w.Take()
		require.True(t, ok)
		if !w.Keep(slot, fd, -1) {
			break
		}
		slots = append(slots, slot)
	}
	assert.Greater(t, len(slots), 1000)
	assert.Equal(t, len(slots), v.Stats().Kept)
	assert.EqualValues(t, 1, v.Stats().Refused)
	assert.Contains(t, v.Stats().Lacking, "segment")
	assert.True(t, v.Stats().OfStore)
	assert.Equal(t, 2, v.Stats().Segments)
	var full *fdstore.FullError
	require.ErrorAs(t, v.Grow(t.Context()), &full)

	// Dropping makes room without another segment.
	for _, slot := range slots[100:900] {
		w.Drop(slot)
	}
	fill(t, w, 300, int(fd))
	assert.Equal(t, 2, v.Stats().Segments)
	fill(t, w, 400, int(fd))

	// In the midst of a push it would hide that the beginning was dropped.
	v.WithoutPush(func() { m.Resize(100) })
	require.NoError(t, v.Grow(t.Context()))
	assert.Greater(t, v.Stats().Segments, 2)
	fill(t, w, 1000, int(fd))
	want := v.Stats().Kept
	require.NoError(t, v.Close())
	_, found, _ := nextLife(t, m)
	assert.Len(t, ids(found), want)
}

func TestSegmentsThatAreNotNeededAreGivenUp(t *testing.T) {
	m := storetest.Start(t, 200)
	store, _ := open(t, m, nil)
	v := newVault(t, options())
	require.NoError(t, v.Entrust(t.Context(), store))
	w := v.Writer(0)
	slots := fill(t, w, 4000, eventfd(t))
	require.NoError(t, v.Grow(t.Context())) // as far as it will
	most := v.Stats().Segments
	for i, slot := range slots {
		if i%500 != 0 { // some are left in each
			w.Drop(slot)
		}
	}
	_, release := v.Files()
	v.Sweep()
	v.Shrink(t.Context())
	assert.GreaterOrEqual(t, v.Stats().Segments, most, "somebody has the list")
	release()
	require.Eventually(t, func() bool {
		v.Sweep()
		v.Shrink(t.Context())
		return v.Stats().Segments <= 4
	}, soon, time.Millisecond)
	assertStored(t, v, store)
	require.NoError(t, v.Close())
	_, found, _ := nextLife(t, m)
	assert.Len(t, ids(found), 8)
}

func TestAManagerThatDoesNotAnswerIsNotWaitedForByWriters(t *testing.T) {
	m := storetest.Start(t, 100)
	line := &silent{Manager: m.Notifier()}
	store, err := fdstore.Open(t.Context(), line, fdstore.Returned{}, fdstore.Options{})
	require.NoError(t, err)
	v := newVault(t, options())
	require.NoError(t, v.Entrust(t.Context(), store))
	line.muted.Store(true)
	w := v.Writer(0)
	fd := int32(eventfd(t))
	refused := 0
	for range 2000 {
		slot, _, ok := w.Take()
		require.True(t, ok)
		if !w.Keep(slot, fd, -1) {
			refused++
		}
	}
	assert.NotZero(t, refused)
	files, release := v.Files() // nor by who hands the vault over
	release()
	assert.Len(t, files, 1+2*2)
	require.NoError(t, v.Close(), "that ends the waiting")
}

// silent is the way to a manager that may stop to answer.
type silent struct {
	fdstore.Manager
	muted atomic.Bool
}

func (s *silent) Barrier(ctx context.Context) error {
	if s.muted.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Manager.Barrier(ctx)
}

func TestWhoHasTheListOfFilesHasAllThatIsKept(t *testing.T) {
	v := newVault(t, options())
	w := v.Writer(0)
	fd := int32(eventfd(t))
	keepAll := func() (kept int) {
		for range 4000 {
			slot, _, ok := w.Take()
			if !ok || !w.Keep(slot, fd, -1) {
				break
			}
			kept++
		}
		return kept
	}
	files, release := v.Files()
	held := copies(t, files)
	kept := keepAll()
	require.NoError(t, v.Grow(t.Context()))
	assert.Zero(t, keepAll(), "there is room in what is not on the list")
	release()
	require.NoError(t, v.Grow(t.Context()))
	assert.NotZero(t, keepAll())
	require.NoError(t, v.Close())
	_, found := restore(t, options(), held)
	assert.Len(t, found.Kept, kept)
}

func TestAStoreHasRoomLeftForOthers(t *testing.T) {
	const places = 80
	m := storetest.Start(t, places)
	store, err := fdstore.Open(t.Context(), m.Notifier(), fdstore.Returned{}, fdstore.Options{Max: places})
	require.NoError(t, err)
	v := newVault(t, vault.Options{Slots: 1 << 16, InFlight: 19_000, Format: 1})
	require.NoError(t, v.Entrust(t.Context(), store))
	w := v.Writer(0)
	fd := int32(eventfd(t))
	for full := 0; full < 3; {
		slot, _, ok := w.Take()
		require.True(t, ok)
		if !w.Keep(slot, fd, -1) {
			full++
			_ = v.Grow(t.Context())
		}
	}
	assert.LessOrEqual(t, store.Len(), places-places/8)
}
