package relay

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// set is a time as time.Now gives it when the host's clock was set by so much, and the monotonic
// one goes on: package time has no way to make one. Its first word has the seconds from bit 30 on.
func set(t time.Time, by time.Duration) time.Time {
	word := (*int64)(unsafe.Pointer(&t))
	*word += int64(by/time.Second) << 30
	return t
}

// A host that was suspended has its clock set when it goes on.
func TestWhoIsMeantByATimeIsSoWhateverTheClockIsSetTo(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			b := newBackend(t, "tcp", echo)
			r := newRig(t, setup{}, b.address)
			r.clients(3)
			now := time.Now()
			before := set(now, by)
			require.Equal(t, now.Unix()+int64(by/time.Second), before.Unix())
			require.Zero(t, before.Sub(now))
			r.turnTwice() // who is accepted from now on is so after that
			r.clients(2)
			these := Selection{Before: before}
			assert.EqualValues(t, 3, r.relay.Count(these))
			r.relay.HangUp(these)
			assert.EqualValues(t, 2, r.relay.Stats().Active)
		})
	}
}

// It is one of those that are there.
func TestWhoWasAcceptedBeforeTheClockWasSetBackIsMeantByATimeAfterARestart(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 10)
	r := newRig(t, setup{vault: s}, b.address)
	require.NoError(t, ping(t, r.dial()))
	r.letGo()
	left, _, _ := s.onlySlot()
	left.opened += int64(time.Hour)
	require.Equal(t, Restored{Connections: 1}, r.successor(s))
	assert.EqualValues(t, 1, r.relay.Count(Selection{Before: time.Now()}))
}
