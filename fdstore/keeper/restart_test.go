package keeper_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
)

func TestHoweverTheServiceEndsItIsStartedAgain(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StopTimeout: patience})
	h.next().exit(0)
	h.next().exit(3)
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL, unix.SIGINT} {
		h.next().kill(signal)
		h.logs("ended", "by="+unix.SignalName(signal))
	}
	h.next()
	h.stop()
}

func TestThePauseBeforeARestartGrows(t *testing.T) {
	t.Parallel()
	h := newHouse(t, keeper.Options{StopTimeout: patience})
	h.pause = ""
	h.start()
	pauses := []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}
	for _, pause := range pauses {
		h.next().exit(1)
		h.logs("msg=restarting", "in="+pause.String())
	}
	h.next()
	h.eventually("the last is noted", func() bool { return count(h.log(), "msg=restarted") == len(pauses) })
	ended, restarted := h.saidAt("msg=ended"), h.saidAt("msg=restarted")
	for i, pause := range pauses {
		assert.GreaterOrEqual(t, restarted[i].Sub(ended[i]), pause-time.Millisecond, "by the keeper's log, which has milliseconds")
	}
	h.stop()
}

func TestRestartPoliciesAndExitCodes(t *testing.T) {
	t.Parallel()
	const always, onFailure, never = keeper.RestartAlways, keeper.RestartOnFailure, keeper.RestartNever
	for _, tt := range []struct {
		command  string
		policy   keeper.RestartPolicy
		restarts bool
		code     int // when it does not
	}{
		{"exit 0", always, true, 0},
		{"exit 3", always, true, 0},
		{"exit 0", onFailure, false, 0},
		{"exit 3", onFailure, true, 0},
		{"kill -TERM $$", onFailure, false, 143},
		{"kill -HUP $$", onFailure, false, 129},
		{"kill -KILL $$", onFailure, true, 0},
		{"exit 0", never, false, 0},
		{"exit 255", never, false, 255},
		{"kill -KILL $$", never, false, 137},
		{"exec /nonexistent", never, false, 127},
	} {
		t.Run(string(tt.policy)+" after "+tt.command, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, keeper.Options{Restart: tt.policy, StopTimeout: patience})
			h.start("sh", "-c", "trap - TERM HUP; "+tt.command)
			if !tt.restarts {
				assert.Equal(t, tt.code, h.code())
				assert.NotContains(t, h.log(), "restart")
				return
			}
			h.logs("restarted")
			h.signal(unix.SIGTERM)
			h.code()
		})
	}
}

func TestWhatTheServiceLeavesInItsProcessGroupIsKilledBeforeTheNextStarts(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StopTimeout: patience})
	s := h.next()
	s.do(request{Do: "fork"})
	worker := h.next()
	require.Equal(t, s.Group, worker.Group)
	s.do(request{Do: "fork", Names: []string{"session"}})
	daemon := h.next()
	require.NotEqual(t, s.Group, daemon.Group)

	s.kill(unix.SIGKILL)
	worker.gone()
	h.next()
	assert.True(t, running(daemon.PID), "it has left the group, and is somebody else's now")
	h.stop()
}

func TestOrphansAreWaitedFor(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StopTimeout: patience})
	s := h.next()
	s.do(request{Do: "fork", Names: []string{"session"}})
	parent := h.next()
	parent.do(request{Do: "fork"})
	orphan := h.next()
	require.Equal(t, parent.PID, orphan.Parent)
	parent.kill(unix.SIGKILL) // s does not wait for it, and it has a zombie for now
	h.eventually("the orphan is the keeper's", func() bool { return parentOf(orphan.PID) == h.keeper.Process.Pid })
	orphan.exit(0)
	h.eventually("it is no zombie", func() bool { return parentOf(orphan.PID) == 0 })
	s.exit(0) // now its zombie is the keeper's
	h.eventually("none is left", func() bool { return parentOf(parent.PID) == 0 })
	h.next()
	h.stop()
}
