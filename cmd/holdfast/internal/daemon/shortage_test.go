package daemon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

func TestAWantOfRoomIsSaidOnceAndItsEndWhenItIsOneForGood(t *testing.T) {
	t.Parallel()
	var s shortage
	refused, changes := uint64(0), []bool{}
	looks := func(times int, more uint64, unkept int64) {
		for range times {
			refused += more
			if s.look(refused, unkept) {
				changes = append(changes, s.said)
			}
		}
	}
	looks(9, 0, 0)
	looks(1, 5, 3) // a burst, that is kept late
	looks(9, 0, 0)
	looks(3, 0, 7) // they owe something: it is not for want of room
	assert.Empty(t, changes)
	looks(50, 2, 20)
	assert.Equal(t, []bool{true}, changes, "once")
	for range 10 { // it comes and goes
		looks(3, 0, 0)
		looks(1, 1, 1)
	}
	assert.Equal(t, []bool{true}, changes)
	looks(20, 0, 1)
	assert.Equal(t, []bool{true, false}, changes)
	refused = 0 // another vault
	looks(9, 0, 0)
	assert.Equal(t, []bool{true, false}, changes)
}

func TestThatConnectionsAreNotKeptForWantOfRoomIsInTheLog(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	t.Parallel()
	m := storetest.Start(t, 100)
	s := echoSite(t)
	s.write(t)
	l := s.lifeOf(t, m.Socket(), nil, "NOFILE=400") // three quarters of which may be in flight
	l.status()
	s.clients(t, "web", 160)
	unkept := l.status().Connections.Unkept
	require.Positive(t, unkept)
	const text = "there is no room to keep all connections"
	require.Eventually(t, func() bool { return strings.Contains(l.log.String(), text) }, 6*lookEvery, 10*time.Millisecond)
	assert.Contains(t, l.log.String(), fmt.Sprint("connections=", unkept))
	assert.Contains(t, l.log.String(), "in flight")
}
