package survival

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// What a child was ending in order the next one ends in order, too.
func TestKilledWhileIdleConnectionsAreEndedTheyEndInOrder(t *testing.T) {
	t.Parallel()
	const sent = 100 // by each end, which waits for more than that then
	h := newHouse(t)
	h.tolerates = func(p *plan) bool {
		for _, o := range p.outcome {
			if o == nil || !isEnd(o.end) || o.received != sent || o.sent != sent {
				return false
			}
		}
		return true
	}
	r := rand.New(rand.NewPCG(h.seed, 700))
	idle := func(s *settings) { s.Idle = 10 * time.Millisecond }
	var clients sync.WaitGroup
	for n := range kills(4) {
		for range 10 {
			p := h.newPlan(r, 1, h.routes[0])
			p.resets, p.mptcp = nobody, false
			for i := range p.ends {
				p.ends[i] = script{size: 2 * sent, chunk: sent, turns: []turn{{sent, sent + 1}}, seed: p.ends[i].seed}
			}
			clients.Go(func() { h.runClient(p) })
		}
		h.traced(idle, boundary{"shutdown", n%2 == 1, true}, r.IntN(6), 10*time.Second, map[boundary]int{})
	}
	l := h.start(idle)
	clients.Wait()
	(&traffic{house: h, stop: make(chan struct{})}).end(l)
	t.Log(h.ended.Load(), "were being ended")
	assert.Positive(t, h.ended.Load())
}
