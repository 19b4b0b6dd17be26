package daemon

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
)

func TestAnInstanceThatHangsIsTakenOverWhenItsManagerIsGone(t *testing.T) {
	t.Parallel()
	m := newListeningManager(t)
	s := twoSockets(t)
	first := s.lifeOf(t, m.path, nil)
	first.status()
	held := s.dial(t, "web")
	requireEcho(t, held)
	first.freeze()
	second := s.lifeOf(t, nobody, nil)
	require.Eventually(t, second.over, 3*patience, 10*time.Millisecond)
	require.Error(t, second.command.Wait())
	second.ended = true
	require.Contains(t, second.log.String(), "has a service manager, which goes on with its connections")
	require.NoError(t, m.conn.Close())
	third := s.lifeOf(t, nobody, nil)
	third.log.eventually(t, "msg=serving")
	requireEcho(t, held)
	first.gone() // it was killed
}

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
}
