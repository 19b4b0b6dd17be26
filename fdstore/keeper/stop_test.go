package keeper_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
)

func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StopTimeout: patience})
	s := h.next()
	for i, signal := range []unix.Signal{unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH} {
		h.signal(signal)
		h.eventually(unix.SignalName(signal), func() bool {
			caught := s.do(request{Do: "caught"}).Names
			return len(caught) == i+1 && caught[i] == unix.SignalName(signal)
		})
	}
	h.stop()
}

func TestAStopIsPassedOnAndIsTheEnd(t *testing.T) {
	t.Parallel()
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGQUIT} {
		h := live(t, keeper.Options{StoreMax: 5, StopTimeout: patience})
		s := h.next()
		h.signal(signal)
		if signal == unix.SIGQUIT { // by which the Go runtime ends with a trace, and code 2
			assert.Equal(t, 2, h.code())
		} else {
			assert.Zero(t, h.code(), unix.SignalName(signal))
		}
		s.gone()
		assert.NotContains(t, h.log(), "restart")
	}
}

func TestTheServiceKnowsAStopFromARestart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		policy keeper.RestartPolicy
		before keeper.Job
	}{
		{keeper.RestartAlways, keeper.JobRestart},
		{keeper.RestartOnFailure, keeper.JobStop}, // for a good end
		{keeper.RestartNever, keeper.JobStop},
	} {
		t.Run(string(tt.policy), func(t *testing.T) {
			t.Parallel()
			h := live(t, keeper.Options{Restart: tt.policy, StopTimeout: patience})
			s := h.next()
			s.do(request{Do: "ignore", Names: []string{"SIGTERM"}})
			assert.Equal(t, string(tt.before), s.do(request{Do: "job"}).Text)
			s.kill(unix.SIGTERM)
			assert.Equal(t, string(tt.before), s.do(request{Do: "job"}).Text, "it was not the keeper")
			h.signal(unix.SIGTERM)
			h.logs("ending")
			assert.Equal(t, string(keeper.JobStop), s.do(request{Do: "job"}).Text)
			s.exit(0)
			assert.Zero(t, h.code())
		})
	}
}

func TestAServiceThatDoesNotStopIsKilled(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StopTimeout: 300 * time.Millisecond})
	s := h.next()
	s.do(request{Do: "ignore", Names: []string{"SIGTERM"}})
	s.do(request{Do: "fork"})
	worker := h.next()
	h.signal(unix.SIGTERM)
	h.signal(unix.SIGTERM)
	assert.Equal(t, 137, h.code())
	s.gone()
	worker.gone()
}

func TestAServiceThatSaysThatItStopsMustDoSo(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StopTimeout: 300 * time.Millisecond})
	s := h.next()
	s.say("STOPPING=1")
	s.gone()
	h.logs("killed")
	h.next() // it was no stop
	h.stop()
}

func TestAStopWhileNothingRunsIsTheEnd(t *testing.T) {
	t.Parallel()
	h := newHouse(t, keeper.Options{})
	h.pause = ""
	h.start("sh", "-c", "exit 4")
	h.logs("restarting", "in=1s")
	h.signal(unix.SIGTERM)
	assert.Equal(t, 4, h.code(), "of the last that ran")
}

func TestIgnoredSignalsStayIgnored(t *testing.T) {
	t.Parallel()
	h := newHouse(t, keeper.Options{StopTimeout: patience})
	h.wrapper = []string{"sh", "-c", `trap "" HUP INT; exec "$@"`, "-"}
	h.start()
	s := h.next()
	h.signal(unix.SIGHUP)
	h.signal(unix.SIGINT)
	h.signal(unix.SIGUSR1)
	h.eventually("USR1 comes", func() bool { return len(s.do(request{Do: "caught"}).Names) > 0 })
	assert.Equal(t, []string{"SIGUSR1"}, s.do(request{Do: "caught"}).Names)
	h.stop()
}

func TestAStopWaitsForFormerMainProcesses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		timeout time.Duration
		end     func(h *house, first *service)
	}{
		"that end by themselves":         {patience, func(_ *house, first *service) { first.exit(0) }},
		"until a second signal":          {patience, func(h *house, _ *service) { h.signal(unix.SIGTERM) }},
		"for as long as for the service": {300 * time.Millisecond, func(*house, *service) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := live(t, keeper.Options{StopTimeout: tt.timeout})
			first := h.next()
			second := upgrade(h, first)
			h.signal(unix.SIGTERM)
			second.gone()
			h.logs("waiting for former main processes")
			tt.end(h, first)
			assert.Zero(t, h.code())
			first.gone()
		})
	}
}
