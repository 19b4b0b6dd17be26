package keeper_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
