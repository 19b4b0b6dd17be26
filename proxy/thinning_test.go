package proxy

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConnectionsAreEndedEvenlyOverTheTime(t *testing.T) {
	for _, first := range []int64{1, 7, 300, 100_000} {
		thin := newThinning(first, 10*time.Second)
		left := first
		var most int64
		for at := time.Duration(0); at <= 10*time.Second+thinEvery; at += 20 * time.Millisecond {
			n := thin.due(left, thin.began.Add(at))
			most = max(most, n)
			left -= n
			if at < 5*time.Second {
				assert.GreaterOrEqual(t, left, first/2, "at %v of %d", at, first)
			}
		}
		assert.Zero(t, left)
		assert.LessOrEqual(t, most, first/50+1, "no more than their share at once")
	}
}

func TestThoseThatEndByThemselvesCount(t *testing.T) {
	thin := newThinning(100, time.Second)
	assert.Zero(t, thin.due(20, thin.began.Add(500*time.Millisecond)), "fewer are left than are to stay")
	assert.Zero(t, newThinning(100, 0).due(100, time.Now().Add(time.Hour)))
}

func TestAStopThatIsSpreadEndsEachConnection(t *testing.T) {
	socket, address, _ := handed(t, "web", false)
	e := started(t, slog.New(slog.DiscardHandler), proxying(t, echoServer(t)), socket)
	for range 20 {
		ping(t, dial(t, address))
	}
	e.Stop(t.Context(), Ending{Leave: true, Spread: 2 * thinEvery})
	assert.Zero(t, alive(e))
}

func TestAPausedEngineAcceptsNobodyUntilItResumes(t *testing.T) {
	socket, address, _ := handed(t, "web", false)
	e := started(t, slog.New(slog.DiscardHandler), proxying(t, echoServer(t)), socket)
	defer e.Stop(atOnce(), Ending{})
	before := dial(t, address)
	ping(t, before)
	e.Pause()
	waiting := dial(t, address)
	ping(t, before) // also shows that the loops have turned
	require.EqualValues(t, 1, alive(e))
	e.Resume()
	ping(t, waiting)
}
