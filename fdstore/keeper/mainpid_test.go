package keeper_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
)

// upgrade has a service start its successor, which becomes the main process.
func upgrade(h *house, s *service) *service {
	h.t.Helper()
	next := successor(h, s)
	s.say("MAINPID=" + strconv.Itoa(next.PID))
	return next
}

// successor is one that is not the main process yet.
func successor(h *house, s *service) *service {
	h.t.Helper()
	pid := s.do(request{Do: "fork", Names: []string{"session"}}).Number
	next := h.next()
	require.Equal(h.t, pid, next.PID)
	return next
}

func TestASuccessorBecomesTheMainProcess(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StoreMax: 5, StopTimeout: patience})
	first := h.next()
	second := upgrade(h, first)
	first.exit(0)
	second.push("x", 1)
	second.say("READY=1")
	third := upgrade(h, second)
	second.kill(unix.SIGKILL)
	third.say("STATUS=here")
	h.signal(unix.SIGHUP)
	h.eventually("signals are passed on to it", func() bool { return len(third.do(request{Do: "caught"}).Names) == 1 })
	assert.NotContains(t, h.log(), "restart")

	third.exit(0)
	s := h.next()
	assert.Equal(t, []string{"x"}, s.Names)
	h.stop()
}

func TestASuccessorWhoseParentLivesIsWatchedToo(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StopTimeout: patience})
	first := h.next()
	second := upgrade(h, first)
	second.kill(unix.SIGKILL) // first has a zombie now: the keeper cannot wait for it
	h.logs("ended", `by="not known"`)
	third := h.next()
	assert.True(t, running(first.PID), "one that drains in a group of its own is left alone")
	first.say("STATUS=draining")
	third.say("READY=1")
	first.exit(0)
	h.stop()
}

func TestOneThatDrainsIsNotTheService(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StoreMax: 5, Watchdog: time.Second, StopTimeout: 500 * time.Millisecond})
	first := h.next()
	second := upgrade(h, first)
	second.say("READY=1")
	first.say("STOPPING=1")
	first.push("x", 1)
	h.eventually("the service hangs, whatever another one says", func() bool {
		first.say("WATCHDOG=1")
		return count(h.log(), "hung", "pid="+strconv.Itoa(second.PID)) > 0
	})
	assert.Equal(t, []string{"x"}, h.next().Names, "what it stores is stored")
	h.stop()
}

func TestAReplacementThatFailsDoesNotStopTheService(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StopTimeout: 200 * time.Millisecond})
	s := h.next()
	s.do(request{Do: "fork"})
	failing := h.next()
	failing.say("STOPPING=1")
	failing.exit(1)
	s.say("READY=1")
	assert.NotContains(t, h.log(), "msg=ending")
	h.stop()
}

func TestAStopEndsASuccessorThatComesMeanwhile(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StopTimeout: patience})
	first := h.next()
	first.do(request{Do: "ignore", Names: []string{"SIGTERM"}})
	h.signal(unix.SIGTERM)
	h.logs("ending")
	second := successor(h, first)
	first.send("MAINPID=" + strconv.Itoa(second.PID)) // by which the keeper may end at once
	second.gone()
	first.exit(0)
	assert.Zero(t, h.code())
}

func TestOnlyProcessesOfTheServiceCanBeTheMainOne(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StopTimeout: patience})
	s := h.next()
	for _, value := range []string{"", "0", "-1", "x", "1", "4194305", strconv.Itoa(h.keeper.Process.Pid), strconv.Itoa(os.Getpid())} {
		s.say("MAINPID=" + value)
	}
	s.say("MAINPID=" + strconv.Itoa(s.PID))
	assert.NotContains(t, h.log(), "another process")
	h.signal(unix.SIGHUP)
	h.eventually("it is the main one still", func() bool { return len(s.do(request{Do: "caught"}).Names) == 1 })
	h.stop()
}
