package proxy

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/relay"
)

// drains are the notes of sockets that drain, by socket.
func (n *notebook) drains(t *testing.T) map[uint64][]time.Time {
	t.Helper()
	found := map[uint64][]time.Time{}
	for _, content := range n.left() {
		var d drainNote
		require.NoError(t, json.Unmarshal(content, &d))
		if d.Kind == ofDrain {
			found[d.Socket] = append(found[d.Socket], d.Over)
		}
	}
	return found
}

func TestTheNextProcessKnowsWhenTheTimeOfASocketIsOver(t *testing.T) {
	n := new(notebook)
	limit := config.Timeout{Duration: time.Hour}
	var first, next drainNotes
	first.attach(n, nil)
	soon, later := time.Now().Add(10*time.Minute), time.Now().Add(20*time.Minute)
	first.put(1, time.Now().Add(time.Minute))
	first.put(1, soon)
	first.put(2, later)
	first.put(3, time.Now().Add(-time.Minute))
	first.put(4, time.Now().Add(10*time.Hour)) // the clock was set back
	first.letGo()
	first.put(1, time.Now()) // it is another process's by now
	first.drop(2)

	next.attach(n, n.left())
	for socket, want := range map[uint64]time.Duration{1: time.Until(soon), 2: time.Until(later), 3: 0, 4: time.Hour, 5: time.Hour} {
		assert.InDelta(t, want, next.left(socket, limit).Duration, float64(time.Minute), socket)
	}
	assert.Equal(t, config.Timeout{Never: true}, next.left(1, config.Timeout{Never: true}), "the configuration says so now")
	assert.LessOrEqual(t, next.left(2, config.Timeout{Duration: time.Second}).Duration, time.Second)

	next.keepThose([]*listening{{Socket: Socket{ID: 2}}})
	left := n.drains(t)
	assert.Len(t, left, 1)
	assert.Len(t, left[2], 1)
	next.drop(2)
	assert.Empty(t, n.drains(t))
}

func TestOfTwoNotesOfASocketOneIsDropped(t *testing.T) {
	n := new(notebook)
	for range 2 {
		_, ok := relay.LeaveNote(n, drainNote{Kind: ofDrain, Socket: 1, Over: time.Now()})
		require.True(t, ok)
	}
	var d drainNotes
	d.attach(n, n.left())
	assert.Len(t, n.drains(t)[1], 1)
	d.drop(1)
	assert.Empty(t, n.left())
}

// Its connections have the whole time from when it is closed on.
func TestTheTimeOfASocketIsNotedWhenItBegins(t *testing.T) {
	n := new(notebook)
	cfg := proxying(t, echoServer(t))
	cfg.Global.DrainTimeout = config.Timeout{Duration: time.Hour}
	first, address, _ := handed(t, "web", false)
	e := serving(t, cfg, first)
	n.attach(e)
	client := dial(t, address)
	ping(t, client)
	second, _, _ := handed(t, "web", false)
	apply(t, e, 2, cfg, second)
	require.Eventually(t, func() bool { return len(n.drains(t)) == 1 }, patience, time.Millisecond)
	assert.InDelta(t, time.Hour, time.Until(n.drains(t)[first.ID][0]), float64(time.Minute))

	e.LetGo() // to a replacement that does not take over
	assert.Len(t, n.drains(t), 1)
	n.attach(e)
	assert.Len(t, n.drains(t), 1)
	require.NoError(t, client.Close())
	require.Eventually(t, func() bool { return len(n.drains(t)) == 0 }, patience, time.Millisecond, "nobody is left")
}
