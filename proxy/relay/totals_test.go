package relay

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTotalsAddUpWhatWasCountedBefore(t *testing.T) {
	var all totals
	_, loops := all.begin()
	loops[0], loops[3] = count{1, 2, 3, 4}, count{10, 20, 30, 40}
	before, loops := all.begin()
	assert.Equal(t, count{11, 22, 33, 44}, before)
	loops[0].accepted = 100
	before, _ = all.begin()
	assert.Equal(t, count{111, 22, 33, 44}, before)
}

func TestTotalsThatWereGarbledBeginAnew(t *testing.T) {
	for name, garbled := range map[string]count{"below zero": {in: -1}, "too many": {accepted: 1 << 61}} {
		t.Run(name, func(t *testing.T) {
			all := totals{bank: 1}
			all.banks[1].loops[2] = garbled
			before, loops := all.begin()
			assert.Zero(t, before)
			loops[0].accepted = 1
			before, _ = all.begin()
			assert.Equal(t, count{accepted: 1}, before)
		})
	}
}
