package keeper

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/internal/manager"
)

// keeping is a keeper whose main process is this one, and without its loop: what it
// would do, and when, is to be seen by nextDeadline.
func keeping(t *testing.T, o Options) *keeper {
	t.Helper()
	poll, err := newPoll()
	require.NoError(t, err)
	o = o.withDefaults()
	k := &keeper{options: o, log: o.Log, poll: poll, place: &place{}}
	t.Cleanup(k.close)
	k.adopt(opened(t, os.Getpid()))
	return k
}

func opened(t *testing.T, pid int) *process {
	t.Helper()
	p, err := openProcess(pid)
	require.NoError(t, err)
	return p
}

// says is what its main process says.
func (k *keeper) says(lines ...string) {
	k.setState(manager.Message{PID: k.main.pid, Lines: lines})
}

// due asks that the next thing to do is due in a time from now, or never for 0.
func (k *keeper) due(t *testing.T, in time.Duration) {
	t.Helper()
	if in == 0 {
		assert.Zero(t, k.nextDeadline())
		return
	}
	assert.WithinDuration(t, time.Now().Add(in), k.nextDeadline(), in/4)
}

func TestAServiceThatAsksForTimeGetsIt(t *testing.T) {
	k := keeping(t, Options{StopTimeout: 10 * time.Minute})
	k.says("EXTEND_TIMEOUT_USEC=60000000")
	k.due(t, 0)
	k.beginEnd("it is told to")
	k.due(t, 10*time.Minute)
	for _, value := range []string{"1", "nonsense", "18446744073709551615"} {
		k.says("EXTEND_TIMEOUT_USEC=" + value)
		k.due(t, 10*time.Minute)
	}
	k.says("EXTEND_TIMEOUT_USEC=3600000000")
	k.due(t, time.Hour)
	k.beginEnd("it says so")
	k.due(t, time.Hour)
}

func TestAServiceThatLivesIsLeftAlone(t *testing.T) {
	k := keeping(t, Options{Watchdog: 10 * time.Minute})
	k.due(t, 0) // it may take its time to start
	k.says("READY=1")
	k.due(t, 10*time.Minute)
	k.watchdog.due = time.Now()
	k.says("WATCHDOG=1")
	k.due(t, 10*time.Minute)
	k.says("EXTEND_TIMEOUT_USEC=3600000000")
	k.due(t, time.Hour)
	k.says("WATCHDOG_USEC=0")
	k.says("WATCHDOG=1")
	k.due(t, 0)
	k.says("WATCHDOG_USEC=60000000")
	k.due(t, time.Minute)
}

func TestAServiceThatStopsIsNotWatched(t *testing.T) {
	k := keeping(t, Options{Watchdog: time.Minute, StopTimeout: time.Hour})
	k.says("READY=1")
	k.due(t, time.Minute)
	k.says("STOPPING=1")
	k.says("READY=1", "WATCHDOG=1")
	k.says("WATCHDOG=trigger")
	k.says("WATCHDOG_USEC=1000")
	k.due(t, time.Hour)
}

func TestASuccessorLeavesItsEndBehind(t *testing.T) {
	k := keeping(t, Options{StopTimeout: time.Minute})
	k.says("STOPPING=1")
	k.due(t, time.Minute)
	k.adopt(opened(t, unix.Getppid()))
	k.due(t, 0)
}

// A deadline that has passed and that nobody deals with would have the loop spin.
func TestOnceTheMainProcessHasEndedItsWatchdogIsOver(t *testing.T) {
	k := keeping(t, Options{Watchdog: time.Minute})
	k.says("READY=1")
	k.due(t, time.Minute)
	k.dismiss()
	k.due(t, 0)
}
