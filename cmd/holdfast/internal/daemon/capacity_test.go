package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

// measuring keeps in a store of so many places, of which capacity tells.
func measuring(m fdstore.Manager, places int, capacity capacity) *keeping {
	k := &keeping{log: quiet, capacity: capacity, full: make(chan struct{}, 1)}
	k.store.Store(fdstore.New(m, fdstore.Returned{}, fdstore.Options{Max: places}))
	return k
}

func generationOf(number uint64) kept {
	return kept{Format: keptFormat, Current: keptGeneration{Number: number}}
}

// As after systemctl daemon-reload.
func TestAStoreThatHasBecomeLargerIsMadeUseOf(t *testing.T) {
	t.Parallel()
	m := storetest.Start(t, 20)
	k := measuring(m.Notifier(), 1, func(context.Context) (int, error) { return 2, nil })
	_, err := k.push(t.Context(), nil, generationOf(1))
	require.ErrorContains(t, err, "0 of its 1 places")
	require.Len(t, k.full, 1, "followCapacity is to measure it")
	require.True(t, k.hasGrown(t.Context(), err))
	require.True(t, k.hasGrown(t.Context(), err), "also if somebody else has measured it")
	_, err = k.push(t.Context(), nil, generationOf(1))
	require.NoError(t, err)
	assert.Equal(t, []string{stateName(1)}, storedBy(m))

	_, err = k.push(t.Context(), nil, generationOf(2))
	require.ErrorContains(t, err, "1 of its 2 places")
	assert.False(t, k.hasGrown(t.Context(), err))
}

// A bus that hangs must not hold up a reload or a stop.
func TestAPushDoesNotWaitForWhoKnowsHowLargeTheStoreIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := measuring(nil, 1, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		ctx, stop := context.WithCancel(t.Context())
		go k.followCapacity(ctx)
		began := time.Now()
		for range 10 {
			_, err := k.push(t.Context(), nil, generationOf(1))
			require.Error(t, err)
			synctest.Wait()
		}
		assert.Equal(t, began, time.Now())
		stop()
	})
}

func TestAStoreWithoutRoomIsMeasuredOnceAMinuteAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		k := measuring(nil, 1, func(context.Context) (int, error) {
			asked++
			return 1000, errors.New("not known")
		})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go k.followCapacity(ctx)
		time.Sleep(time.Hour)
		assert.Zero(t, asked, "nobody wants room")
		for range 10 * 60 {
			ask(k.full)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		assert.InDelta(t, 10, asked, 1)
		assert.Equal(t, 1, k.store.Load().Max(), "it is what it was where nobody can say")
	})
}

func TestOnlyAStoreThatIsTooSmallIsMeasured(t *testing.T) {
	t.Parallel()
	k := measuring(nil, 1, nil)
	assert.False(t, k.hasGrown(t.Context(), &fdstore.FullError{Max: 1}), "a keeper's has the size that it was started with")
	for _, err := range []error{nil, context.DeadlineExceeded, &fdstore.FullError{NameBytes: 1}} {
		assert.False(t, k.hasGrown(t.Context(), err))
		assert.Equal(t, err, k.noteFull(err))
		assert.Empty(t, k.full)
	}
	_ = k.noteFull(fmt.Errorf("entrust: %w", &fdstore.FullError{Max: 1}))
	assert.Len(t, k.full, 1)
}

// Nobody but systemd knows that the store is larger.
func TestAReloadThatHasRoomSinceDaemonReloadIsNotRefused(t *testing.T) {
	m := storetest.Start(t, 20)
	t.Setenv("NOTIFY_SOCKET", m.Socket())
	t.Setenv("FDSTORE", "3")
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent")
	s := newSite(t)
	s.global = []string{"keep = 'listeners'"}
	s.write(t)
	var log logBook
	d, err := start(t.Context(), s.options(), log.logger(), new(slog.LevelVar))
	require.NoError(t, err)
	d.keep.capacity = func(context.Context) (int, error) { return 20, nil }
	signals := &signals{stop: make(chan string, 1), until: t.Context()}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.run(signals)
	}()
	defer func() {
		signals.stop <- "SIGTERM"
		<-ended
	}()
	s.listen["more"] = []string{freeAddress(t)}
	s.write(t)
	done, err := d.Reload(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 2, done.Generation)
	assert.Contains(t, log.String(), "the size of the store has changed")
	eventuallyStores(t, m, 3)
}
