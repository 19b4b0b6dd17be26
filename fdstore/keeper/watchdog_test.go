package keeper_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
)

func TestAServiceThatHangsIsAborted(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string][]string{
		"ready":         {"READY=1"},
		"alive once":    {"WATCHDOG=1"},
		"by itself":     {"WATCHDOG=trigger"},
		"interval said": {"WATCHDOG_USEC=100000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := live(t, keeper.Options{Watchdog: 500 * time.Millisecond, StopTimeout: patience})
			_, _ = h.next().try(request{Do: "send", Lines: begin}) // it may end before it answers
			h.logs("ended", `by="exit code 2"`)                    // as the Go runtime does after SIGABRT
			assert.Contains(t, h.log(), "hung")
			h.next()
			h.stop()
		})
	}
}

func TestAServiceThatDoesNotEvenAbortIsKilled(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{Watchdog: 300 * time.Millisecond, StopTimeout: 300 * time.Millisecond})
	s := h.next()
	s.do(request{Do: "ignore", Names: []string{"SIGABRT"}})
	s.say("READY=1")
	h.logs("ended", "by=SIGKILL")
	h.next()
	h.stop()
}

func TestAServiceThatIsStoppedIsAborted(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{Watchdog: 300 * time.Millisecond, StopTimeout: patience})
	s := h.next()
	s.say("READY=1")
	s.kill(unix.SIGSTOP)
	h.logs("ended", `by="exit code 2"`)
	h.next()
	h.stop()
}

func TestAServiceThatLivesIsLeftAlone(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{Watchdog: 2 * time.Second, StopTimeout: patience})
	s := h.next() // and may take its time to start
	time.Sleep(2500 * time.Millisecond)
	s.say("READY=1")
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		s.say("WATCHDOG=1")
	}
	require.True(t, running(s.PID))

	s.say("WATCHDOG_USEC=0")
	time.Sleep(2500 * time.Millisecond)
	s.say("WATCHDOG=1")
	s.say("WATCHDOG_USEC=1000000")
	s.say("EXTEND_TIMEOUT_USEC=60000000")
	time.Sleep(1500 * time.Millisecond)
	require.True(t, running(s.PID))
	h.stop()
	assert.NotContains(t, h.log(), "hung")
}

func TestAServiceThatStopsIsNotWatched(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{Watchdog: 500 * time.Millisecond, StopTimeout: patience})
	s := h.next()
	s.do(request{Do: "ignore", Names: []string{"SIGTERM"}})
	s.say("READY=1")
	h.signal(unix.SIGTERM)
	h.logs("ending")
	s.say("WATCHDOG=1")
	s.say("WATCHDOG=trigger")
	s.say("WATCHDOG_USEC=1000")
	time.Sleep(700 * time.Millisecond) // longer than the interval
	s.exit(0)
	assert.Zero(t, h.code())
	assert.NotContains(t, h.log(), "hung")
}
