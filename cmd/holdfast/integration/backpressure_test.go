package integration

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// TestPeersThatNeverReadCostBoundedMemory stalls 200 connections in each
// direction and expects that the proxy holds little of what it could not pass on,
// and that others are served meanwhile.
func TestPeersThatNeverReadCostBoundedMemory(t *testing.T) {
	const stalled = 200
	talking, listening, healthy := testbed.TCP(t), testbed.TCP(t), testbed.TCP(t)
	endless := make([]byte, 64<<10)
	listen(t, talking, func(conn stream) {
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		for {
			if _, err := conn.Write(endless); err != nil {
				return
			}
		}
	})
	listen(t, listening, func(stream) { <-t.Context().Done() })
	listen(t, healthy, echo)

	cfg := testbed.Config{Routes: []testbed.Route{
		{Name: "talking", Listen: []string{testbed.TCP(t)}, Servers: []string{talking}},
		{Name: "listening", Listen: []string{testbed.TCP(t)}, Servers: []string{listening}},
		{Name: "healthy", Listen: []string{testbed.TCP(t)}, Servers: []string{healthy}},
	}}
	holdfast := testbed.StartHoldfast(t, cfg)
	requireEcho(t, dial(t, cfg.Routes[2].Listen[0]), "warm\n")
	before := holdfast.Memory(t)

	for range stalled {
		dial(t, cfg.Routes[0].Listen[0])
		conn := dial(t, cfg.Routes[1].Listen[0])
		go func() { // ends when the connection is closed
			for {
				if _, err := conn.Write(endless); err != nil {
					return
				}
			}
		}()
	}
	var moved int64
	still := 0 // looks in a row that saw no progress
	testbed.Eventually(t, time.Minute, "no byte moves any more", func() bool {
		c := holdfast.Status(t).Connections
		if c.BytesIn+c.BytesOut != moved || c.Active < 2*stalled {
			moved, still = c.BytesIn+c.BytesOut, 0
		}
		still++
		return still > 20
	})
	perConnection := (holdfast.Memory(t) - before) / (2 * stalled)
	t.Logf("%d KiB of user memory per stalled connection, %d MiB went through", perConnection>>10, moved>>20)
	assert.LessOrEqual(t, perConnection, int64(128<<10))

	conn := dial(t, cfg.Routes[2].Listen[0])
	start := time.Now()
	for range 100 {
		requireEcho(t, conn, "others are served\n")
	}
	assert.Less(t, time.Since(start), 5*time.Second)
	require.NoError(t, conn.CloseWrite())
	_, err := io.ReadAll(conn)
	require.NoError(t, err)
}
