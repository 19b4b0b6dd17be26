package upstream

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

func TestHealthFollowsRiseAndFall(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimits(t)
		var h health
		isDown := false
		inARow := map[bool]uint32{}
		for _, ok := range rapid.SliceOf(rapid.Bool()).Draw(t, "results") {
			inARow[ok]++
			inARow[!ok] = 0
			if isDown && inARow[true] >= l.rise {
				isDown = false
			} else if !isDown && inARow[false] >= l.fall {
				isDown = true
			}
			h.record(ok, l)
			require.Equal(t, isDown, h.down())
		}
	})
}

func drawLimits(t *rapid.T) limits {
	return limits{rise: rapid.Uint32Range(1, 4).Draw(t, "rise"), fall: rapid.Uint32Range(1, 4).Draw(t, "fall")}
}

// Generations with limits of their own record in one health, and any of them may
// come to report it.
func TestEachChangeOfHealthIsReportedOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		generations := []limits{drawLimits(t), drawLimits(t)}
		var h health
		told := false // that it is down
		for range rapid.IntRange(0, 50).Draw(t, "results") {
			news := h.record(rapid.Bool().Draw(t, "ok"), rapid.SampledFrom(generations).Draw(t, "generation"))
			require.Equal(t, h.down() != told, news, "asked for until it is done")
			if rapid.Bool().Draw(t, "report") {
				isDown, first := h.report()
				require.Equal(t, h.down(), isDown)
				require.Equal(t, news, first)
				_, again := h.report()
				require.False(t, again)
				told = isDown
			}
		}
	})
}

func TestWithoutHealthChecksNothingIsEverDown(t *testing.T) {
	t.Parallel()
	p := newPool(config.RoundRobin, hosts(2)...)
	e := p.endpoints()[0]
	for range 100 {
		e.Failed(errRefused, 0)
	}
	assert.Equal(t, penalised, e.grade(int64(penalty)-1))
	assert.Equal(t, ready, e.grade(int64(penalty)))
	assert.True(t, p.Status().Servers[0].Healthy)
}

func TestFailedDialsCountAsFailedProbes(t *testing.T) {
	t.Parallel()
	p := newPool(config.RoundRobin, hosts(2)...)
	e := p.endpoints()[0]
	e.limits = limitsOf(&config.Health{Rise: 2, Fall: 3})
	for range 3 {
		assert.False(t, e.down())
		e.Failed(errRefused, 0)
	}
	assert.True(t, e.down())
	e.Succeeded()
	assert.True(t, e.down())
	e.Succeeded()
	assert.Equal(t, ready, e.grade(0), "a dial that works ends the penalty too")
}
