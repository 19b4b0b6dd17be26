package daemon

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

const replacementPID, otherPID = 12, 13

// upgradingBy is an instance that upgrades, and takes no calls.
func upgradingBy(t *testing.T) *daemon {
	t.Helper()
	d := &daemon{stopping: make(chan struct{})}
	close(d.stopping)
	_, _, err := d.upgrading.begin()
	require.NoError(t, err)
	return d
}

func TestWhoIsEndedDoesNotTakeOver(t *testing.T) {
	t.Parallel()
	d := upgradingBy(t)
	require.Zero(t, d.upgrading.giveUp(replacementPID))
	require.ErrorIs(t, original{d, new(atomic.Bool)}.LetGo(sock.Peer{PID: replacementPID}), errGivenUp)
	assert.True(t, d.upgrading.enter(otherPID), "another one may")
	d.upgrading.leave()
	d.upgrading.failed(errors.New("it has taken too long"))
	assert.True(t, d.upgrading.enter(replacementPID), "the number is another process's by now")
}

// Who is being told that it has taken over must not be ended: the answer may have gone out.
func TestWhoIsTakingOverIsNotEndedBeforeItIsKnown(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		settle func(*upgrading)
		passed int
	}{
		"it has":     {func(u *upgrading) { u.pass(replacementPID) }, replacementPID},
		"it has not": {(*upgrading).leave, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &upgradingBy(t).upgrading
			require.True(t, u.enter(replacementPID))
			passed := make(chan int, 1)
			go func() { passed <- u.giveUp(replacementPID) }()
			select {
			case <-passed:
				require.Fail(t, "it does not wait")
			case <-time.After(50 * time.Millisecond):
			}
			end.settle(u)
			assert.Equal(t, end.passed, <-passed)
			assert.Equal(t, end.passed != 0, u.enter(replacementPID))
		})
	}
}
