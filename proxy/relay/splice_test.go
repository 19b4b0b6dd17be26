package relay

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPipesForSpeedLeaveSomeToThoseThatNeedThem(t *testing.T) {
	pool := pipePool{most: 4, fast: 2, ceiling: func() int { return 1 << 20 }}
	defer pool.close()
	var taken []pipe
	take := func(get func() pipe, there bool) {
		one := get()
		require.Equal(t, there, one.fd >= 0)
		if there {
			taken = append(taken, one)
		}
	}
	take(pool.getForSpeed, true)
	take(pool.getForSpeed, true)
	take(pool.getForSpeed, false)
	take(pool.get, true)
	take(pool.get, true)
	take(pool.get, false)
	for _, one := range taken[:3] {
		pool.put(one)
	}
	take(pool.getForSpeed, true)
	take(pool.getForSpeed, false)
	for _, one := range taken[3:] {
		pool.put(one)
	}
	assert.Equal(t, 4, pool.made)
}
