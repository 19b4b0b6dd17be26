package survival

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAConnectionWhoseSlotIsGarbageIsResetAndCountedAndNoOtherIs(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	broken := 0
	h.tolerates = func(p *plan) bool {
		broken++
		return p.lookedReset()
	}
	r := rand.New(rand.NewPCG(h.seed, 600))
	l := h.start(nil)
	tr := h.traffic(60, 1<<20)
	lost := 0
	for range kills(30) {
		pause(r, 100*time.Millisecond)
		l.kill()
		l = h.start(func(s *settings) { s.Damage = r.IntN(4) })
		told := l.await("restored")
		require.LessOrEqual(t, told.Lost, told.Damaged, "%s", l.logged())
		lost += told.Lost
		if t.Failed() {
			break
		}
	}
	tr.end(l)
	require.Positive(t, lost, "the damage hit nothing")
	require.LessOrEqual(t, broken, lost)
	t.Log(broken, "connections were cut by the damage to", lost)
}

// lookedReset tells whether no peer can have taken a part for the whole.
func (p *plan) lookedReset() bool {
	networks := [2]string{p.route.network, p.route.to}
	for i, o := range p.outcome {
		if o == nil {
			continue
		}
		other := p.outcome[1-i]
		whole := isEnd(o.end) && (other == nil || o.received == other.sent || isReset(o.refusal))
		if networks[i] == "tcp" && isEnd(o.end) && !whole || isStuck(o.end) {
			return false
		}
	}
	return true
}

// wasReset tells whether both peers have heard that the connection was cut.
func (p *plan) wasReset() bool {
	networks := [2]string{p.route.network, p.route.to}
	for i, o := range p.outcome {
		if o != nil && networks[i] == "tcp" && p.resets == nobody && isEnd(o.end) && o.received < p.ends[1-i].size && !isReset(o.refusal) { // a write has eaten the error
			return false
		}
	}
	return p.lookedReset()
}
