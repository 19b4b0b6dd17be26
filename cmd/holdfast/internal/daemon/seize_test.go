package daemon

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
)

func TestAProcessThatWasToBeKilledGoesOnIfThisOneIsToldToStop(t *testing.T) {
	program := exec.Command("sleep", "1h")
	require.NoError(t, program.Start())
	defer func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	}()
	p, err := pidfd.Open(program.Process.Pid)
	require.NoError(t, err)
	defer p.Close()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = robAndEnd(ctx, p, nil, quiet)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, p.Signal(0), "it lives")
	require.Eventually(t, func() bool { return !stands(p.PID()) }, patience, time.Millisecond)
	require.NoError(t, p.Signal(unix.SIGTERM))
	require.NoError(t, p.Wait(t.Context()))
}
