package systemd

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAReloadTellsWhenItBegan(t *testing.T) {
	name := "@" + t.TempDir()
	c := datagrams(t, name)
	n := notifier(t, name)
	before := monotonic(t)
	require.NoError(t, n.Reloading())
	after := monotonic(t)

	var usec int64
	_, err := fmt.Sscanf(next(t, c), "RELOADING=1\nMONOTONIC_USEC=%d", &usec)
	require.NoError(t, err, "systemd wants both in one message")
	assert.GreaterOrEqual(t, usec, before)
	assert.LessOrEqual(t, usec, after)
}

// monotonic is the manager's clock in microseconds.
func monotonic(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return now.Sec*1e6 + now.Nsec/1e3
}
