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
		rise, fall := rapid.IntRange(1, 4).Draw(t, "rise"), rapid.IntRange(1, 4).Draw(t, "fall")
		var h health
		h.configure(&config.Health{Rise: rise, Fall: fall})
		isDown := false
		inARow := map[bool]int{}
		for _, ok := range rapid.SliceOf(rapid.Bool()).Draw(t, "results") {
			inARow[ok]++
			inARow[!ok] = 0
			want := isDown
			if isDown && inARow[true] >= rise {
				want = false
			} else if !isDown && inARow[false] >= fall {
				want = true
			}
			changed := h.record(ok)
			require.Equal(t, want, h.down())
			require.Equal(t, want != isDown, changed)
			isDown = want
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
	e.health.configure(&config.Health{Rise: 2, Fall: 3})
	for range 3 {
		assert.False(t, e.health.down())
		e.Failed(errRefused, 0)
	}
	assert.True(t, e.health.down())
	e.Succeeded()
	assert.True(t, e.health.down())
	e.Succeeded()
	assert.Equal(t, ready, e.grade(0), "a dial that works ends the penalty too")
}
