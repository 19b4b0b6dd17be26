package proxy

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDrainEndsWhoIsThereAndNotWhoComes(t *testing.T) {
	socket, address, _ := handed(t, "web", true)
	e := started(t, slog.New(slog.DiscardHandler), proxying(t, echoServer(t)), socket)
	defer e.Stop(atOnce(), Ending{})
	for range 5 {
		ping(t, dial(t, address))
	}
	drained := make(chan int64, 1)
	go func() {
		n, err := e.Drain(t.Context(), 3*thinEvery)
		assert.NoError(t, err)
		drained <- n
	}()
	require.Eventually(t, func() bool { return alive(e) < 5 }, patience, time.Millisecond)
	late := dial(t, address)
	ping(t, late)
	assert.EqualValues(t, 5, <-drained)
	ping(t, late)
	assert.EqualValues(t, 1, alive(e))

	n, err := e.Drain(t.Context(), 0)
	require.NoError(t, err)
	assert.EqualValues(t, 1, n)
}

func TestADrainThatNobodyWaitsForEndsNoMore(t *testing.T) {
	socket, address, _ := handed(t, "web", true)
	e := started(t, slog.New(slog.DiscardHandler), proxying(t, echoServer(t)), socket)
	defer e.Stop(atOnce(), Ending{})
	c := dial(t, address)
	ping(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n, err := e.Drain(ctx, time.Hour)
	require.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, n)
	ping(t, c)
}
