package survival

import (
	"testing"
	"time"
)

func TestNothingIsLostWithoutKills(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	l := h.start(nil)
	tr := h.traffic(60, 1<<20)
	time.Sleep(time.Second)
	tr.end(l)
}

func TestKilledAtRandomMomentsNothingIsLost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		most  time.Duration // of a life, its start included
		kills int
	}{
		{"eight in a second", 250 * time.Millisecond, 60},
		{"as it starts", 30 * time.Millisecond, 150},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			l := h.start(nil)
			tr := h.traffic(60, 4<<20)
			tr.end(h.killTimes(tt.kills, l, tt.most, nil))
		})
	}
}
