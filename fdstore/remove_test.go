package fdstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

func TestRemoveFreesThePlacesOfItsNames(t *testing.T) {
	manager := storetest.Start(t, 4)
	store := open(t, manager.Notifier(), fdstore.Options{Max: 4})
	list := entries(t, 0, 3)
	memfd, err := fdstore.Memfd("x", nil)
	require.NoError(t, err)
	defer memfd.Close()
	list[0].FD = memfd.Raw() // its identity is known
	require.NoError(t, store.Push(t.Context(), list...))
	require.NoError(t, store.Remove(t.Context(), list[0].Name, "unknown", list[2].Name, list[2].Name))
	assert.Equal(t, []string{list[1].Name}, manager.Names(), "at once")
	assert.Equal(t, []string{list[1].Name}, store.Names())
	assert.Equal(t, 1, store.Len())
	require.NoError(t, store.Push(t.Context(), list[0], list[2]), "the same files and names again")
	require.NoError(t, store.Remove(t.Context()))
	assert.Equal(t, names(list), settled(t, manager))
}

func TestRemoveThatBreaksOffCanBeRepeated(t *testing.T) {
	manager := storetest.Start(t, 10)
	line := newLine(manager.Notifier())
	store := open(t, line, fdstore.Options{Max: 10})
	list := entries(t, 0, 3)
	require.NoError(t, store.Push(t.Context(), list...))
	line.breakAfter(1)
	require.ErrorIs(t, store.Remove(t.Context(), names(list)...), errBroken)
	assert.Equal(t, names(list[1:]), store.Names())
	assert.Equal(t, names(list[1:]), settled(t, manager))
	line.breakAfter(-1)
	require.NoError(t, store.Remove(t.Context(), names(list)...))
	assert.Empty(t, settled(t, manager))
}

// hanging is a manager that does not answer until it is let go.
type hanging struct {
	fdstore.Manager
	asked, letGo chan struct{}
	once         sync.Once // closes asked
}

func (h *hanging) Barrier(ctx context.Context) error {
	h.once.Do(func() { close(h.asked) })
	select {
	case <-h.letGo:
		return h.Manager.Barrier(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newHanging(m fdstore.Manager) *hanging {
	return &hanging{Manager: m, asked: make(chan struct{}), letGo: make(chan struct{})}
}

func TestAManagerThatHangsIsWaitedForAsLongAsTheContext(t *testing.T) {
	manager := storetest.Start(t, 10)
	first := entries(t, 0, 2)
	require.NoError(t, open(t, manager.Notifier(), fdstore.Options{}).Push(t.Context(), first...))
	held := manager.Pass()
	defer closeAll(t, held)
	back := fdstore.Reconcile(held, anyName)
	inTime := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}

	_, err := fdstore.Open(inTime(), newHanging(manager.Notifier()), back, fdstore.Options{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, names(first), settled(t, manager), "without a canary")

	swap := newLine(manager.Notifier())
	store, err := fdstore.Open(t.Context(), swap, back, fdstore.Options{})
	require.NoError(t, err)
	swap.Manager = newHanging(manager.Notifier())
	require.ErrorIs(t, store.Push(inTime(), entries(t, 10, 2)...), context.DeadlineExceeded)
	assert.Equal(t, names(first), store.Names())
	assert.Equal(t, names(first), settled(t, manager), "what was sent is taken back")
	require.ErrorIs(t, store.Remove(inTime(), first[0].Name), context.DeadlineExceeded)
	assert.Equal(t, names(first[1:]), store.Names())
	assert.Equal(t, names(first[1:]), settled(t, manager), "the manager comes to it")
}

func TestOneAtATimeTalksToTheManager(t *testing.T) {
	manager := storetest.Start(t, 10)
	line := newLine(manager.Notifier())
	store := open(t, line, fdstore.Options{Max: 10})
	h := newHanging(manager.Notifier())
	line.Manager = h
	list := entries(t, 0, 2)
	pushed := make(chan error)
	go func() { pushed <- store.Push(t.Context(), list[0]) }()
	<-h.asked
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, store.Push(short, list[1]), context.DeadlineExceeded)
	assert.Zero(t, store.Len(), "Len does not wait")
	close(h.letGo)
	require.NoError(t, <-pushed)
	assert.Equal(t, names(list[:1]), settled(t, manager))
}

func TestTheStoreCanBeUsedFromAnyGoroutine(t *testing.T) {
	manager := storetest.Start(t, 100)
	store := open(t, manager.Notifier(), fdstore.Options{Max: 100})
	var all sync.WaitGroup
	for i := range 8 {
		list := entries(t, 10*i, 3)
		all.Go(func() {
			for range 5 {
				assert.NoError(t, store.Push(t.Context(), list...))
				assert.True(t, store.Has(list[0].Name))
				assert.NoError(t, store.Remove(t.Context(), names(list[1:])...))
				assert.GreaterOrEqual(t, store.Len(), 1)
				assert.NoError(t, store.Remove(t.Context(), list[0].Name))
			}
		})
	}
	all.Wait()
	assert.Empty(t, settled(t, manager))
	assert.Zero(t, store.Len())
}
