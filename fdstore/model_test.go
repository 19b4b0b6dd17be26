package fdstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

// model is a service that pushes, removes and is killed at any message, beside what
// should be in the manager's store. A foreign descriptor is there from the start.
type model struct {
	t       *testing.T
	manager *storetest.Manager
	places  int      // of the manager
	kept    []string // sorted
	serial  int

	// of the process
	line  *line
	store *fdstore.Store
	max   int
}

const foreign = "stored"

func TestTheStoreIsWhatItsOwnerBelieves(t *testing.T) {
	var serial int
	rapid.Check(t, func(rt *rapid.T) {
		serial++
		places := rapid.IntRange(2, 8).Draw(rt, "places")
		manager, err := storetest.New(fmt.Sprintf("@%s/%d", t.TempDir(), serial), places)
		require.NoError(rt, err)
		defer manager.Close()
		m := &model{t: t, manager: manager, places: places, kept: []string{foreign}}
		raw, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		require.NoError(rt, err)
		require.NoError(rt, manager.Notifier().SendFDs([]int{raw}, "FDSTORE=1", "FDNAME="+foreign))
		require.NoError(rt, unix.Close(raw))
		m.start(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"push":   m.push,
			"remove": m.remove,
			"kill":   m.kill,
			"resize": m.resize,
			"":       m.check,
		})
	})
}

// start is a new process. It may know the size of the store.
func (m *model) start(rt *rapid.T) {
	require.NoError(rt, m.manager.Notifier().Barrier(m.t.Context()))
	held := m.manager.Pass()
	back := fdstore.Reconcile(held, func(name string) bool { return strings.HasPrefix(name, "entry/") })
	defer closeAll(m.t, held)
	require.Len(rt, back.Foreign, 1)
	for _, stale := range back.Stale {
		assert.Contains(rt, stale.Reason, "killed")
	}
	m.max = rapid.SampledFrom([]int{0, m.places}).Draw(rt, "max")
	m.line = newLine(m.manager.Notifier())
	var err error
	m.store, err = fdstore.Open(m.t.Context(), m.line, back, fdstore.Options{Max: m.max})
	require.NoError(rt, err)
}

func (m *model) entries(rt *rapid.T) (list []fdstore.Entry, done func()) {
	var fds []*sock.FD
	for range rapid.IntRange(1, 4).Draw(rt, "entries") {
		raw, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		require.NoError(rt, err)
		fds = append(fds, sock.NewFD(raw))
		list = append(list, fdstore.Entry{Name: fmt.Sprintf("entry/%06d", m.serial), FD: raw})
		m.serial++
	}
	return list, func() {
		for _, fd := range fds {
			require.NoError(rt, fd.Close())
		}
	}
}

func (m *model) push(rt *rapid.T) {
	list, done := m.entries(rt)
	defer done()
	err := m.store.Push(m.t.Context(), list...)
	after := len(m.kept) + len(list) + 1
	if after <= m.places && (m.max == 0 || after <= m.max) {
		require.NoError(rt, err)
		m.kept = slices.Concat(m.kept, names(list))
		slices.Sort(m.kept)
		return
	}
	var full *fdstore.FullError
	require.ErrorAs(rt, err, &full)
}

// some are names of ours that are in the store.
func (m *model) some(rt *rapid.T) []string {
	return slices.DeleteFunc(slices.Clone(m.kept), func(name string) bool {
		return name == foreign || rapid.Bool().Draw(rt, "not "+name)
	})
}

func (m *model) remove(rt *rapid.T) {
	names := m.some(rt)
	require.NoError(rt, m.store.Remove(m.t.Context(), names...))
	m.kept = without(m.kept, names)
}

// kill ends the process after some messages of a push or a removal.
func (m *model) kill(rt *rapid.T) {
	m.line.breakAfter(rapid.IntRange(0, 7).Draw(rt, "messages"))
	before := m.kept
	var wanted, given []string
	if rapid.Bool().Draw(rt, "while it pushes") {
		list, done := m.entries(rt)
		defer done()
		wanted = names(list)
		_ = m.store.Push(context.Background(), list...)
	} else {
		given = m.some(rt)
		_ = m.store.Remove(context.Background(), given...)
	}
	m.start(rt)
	m.kept = m.store.Names()

	arrived := without(m.kept, before)
	assert.Equal(rt, wanted[:len(arrived)], append(wanted[:0:0], arrived...), "in the order of the call")
	gone := without(before, m.kept)
	assert.Equal(rt, given[:len(gone)], append(given[:0:0], gone...), "in the order of the call")
}

// resize is an administrator with daemon-reload.
func (m *model) resize(rt *rapid.T) {
	m.places = rapid.IntRange(2, 8).Draw(rt, "places")
	m.manager.Resize(m.places)
}

func (m *model) check(rt *rapid.T) {
	require.NoError(rt, m.manager.Notifier().Barrier(m.t.Context()))
	require.Equal(rt, m.kept, slices.Sorted(slices.Values(m.manager.Names())))
	require.Equal(rt, m.kept, m.store.Names())
	require.Equal(rt, len(m.kept), m.store.Len())
}

func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(some, name) })
}
