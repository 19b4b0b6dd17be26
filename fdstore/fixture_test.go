package fdstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

// open opens an empty store.
func open(t testing.TB, m fdstore.Manager, o fdstore.Options) *fdstore.Store {
	t.Helper()
	s, err := fdstore.Open(t.Context(), m, fdstore.Returned{}, o)
	require.NoError(t, err)
	return s
}

// eventfd is a descriptor of no interest.
func eventfd(t testing.TB) int {
	t.Helper()
	raw, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	require.NoError(t, err)
	return owned(t, raw)
}

func owned(t testing.TB, raw int) int {
	t.Helper()
	fd := sock.NewFD(raw)
	t.Cleanup(func() { assert.NoError(t, fd.Close()) })
	return raw
}

// entries are new descriptors with names from a number on.
func entries(t testing.TB, from, n int) []fdstore.Entry {
	t.Helper()
	list := make([]fdstore.Entry, n)
	for i := range list {
		list[i] = fdstore.Entry{Name: fmt.Sprintf("entry/%04d", from+i), FD: eventfd(t)}
	}
	return list
}

func names(entries []fdstore.Entry) []string {
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = e.Name
	}
	return list
}

// settled are the names in the manager's store, once it has dealt with everything.
func settled(t testing.TB, m *storetest.Manager) []string {
	t.Helper()
	require.NoError(t, m.Notifier().Barrier(t.Context()))
	return slices.Sorted(slices.Values(m.Names()))
}

func closeAll(t testing.TB, held []fdstore.Held) {
	t.Helper()
	for _, h := range held {
		assert.NoError(t, h.FD.Close())
	}
}

var errBroken = errors.New("the line is broken")

// line is the way to a manager. It breaks after so many messages, and counts what
// goes over it.
type line struct {
	fdstore.Manager

	mu       sync.Mutex
	left     int // messages until it breaks; negative = it does not
	messages int
	inFlight int // descriptors since the last barrier
	most     int // of inFlight
}

func newLine(m fdstore.Manager) *line {
	return &line{Manager: m, left: -1}
}

// breakAfter n messages; negative = mend it.
func (l *line) breakAfter(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = n
}

func (l *line) SendFDs(fds []int, assignments ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		return errBroken
	}
	l.left--
	l.messages++
	l.inFlight += len(fds)
	l.most = max(l.most, l.inFlight)
	return l.Manager.SendFDs(fds, assignments...)
}

func (l *line) Barrier(ctx context.Context) error {
	l.mu.Lock()
	broken := l.left == 0
	l.inFlight = 0
	l.mu.Unlock()
	if broken {
		return errBroken
	}
	return l.Manager.Barrier(ctx)
}
