package systemd

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestABarrierEndsWhenTheManagerClosesIt(t *testing.T) {
	name := "@" + t.TempDir()
	c := datagrams(t, name)
	n := notifier(t, name)
	require.NoError(t, n.Ready())
	passed := make(chan error, 1)
	go func() { passed <- n.Barrier(t.Context()) }()

	assert.Equal(t, "READY=1", next(t, c), "what was sent before comes before")
	message, fds := nextWithFDs(t, c)
	assert.Equal(t, "BARRIER=1", message)
	require.Len(t, fds, 1)
	// Only the end counts, not what else may come.
	_, err := unix.Write(fds[0], []byte("x"))
	require.NoError(t, err)
	assert.Empty(t, passed)
	closeFDs(t, fds)
	require.NoError(t, <-passed)
}

func TestABarrierEndsWithItsContext(t *testing.T) {
	for _, tt := range []struct {
		name string
		full bool // of the manager's queue
		want string
	}{
		{"a manager that does not read", false, "did not deal with the messages in time"},
		{"a manager with a full queue", true, "its queue stays full"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := "@" + t.TempDir()
			datagrams(t, name)
			n := notifier(t, name)
			if tt.full {
				fill(t, n)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			began := time.Now()
			err := n.Barrier(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, tt.want)
			assert.Less(t, time.Since(began), notifyPatience)
		})
	}
}

func TestABarrierWithoutAManager(t *testing.T) {
	require.ErrorIs(t, notifier(t, "@nobody is there").Barrier(t.Context()), unix.ECONNREFUSED)
}

func TestBarriersFromManyGoroutines(t *testing.T) {
	name := "@" + t.TempDir()
	c := datagrams(t, name)
	n := notifier(t, name)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { assert.NoError(t, n.Barrier(t.Context())) })
	}
	for range 8 {
		_, fds := nextWithFDs(t, c)
		closeFDs(t, fds)
	}
	wg.Wait()
}
