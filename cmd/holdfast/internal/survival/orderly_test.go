package survival

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestLetGoByOneAndRestoredByAnotherNothingIsLost(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	r := rand.New(rand.NewPCG(h.seed, 300))
	l := h.start(nil)
	tr := h.traffic(60, 4<<20)
	for range kills(40) {
		pause(r, 150*time.Millisecond)
		former := l
		switch r.IntN(4) {
		case 0: // the former one is there still, and has nothing to do with them any more
			former.ask("let go")
			l = h.start(nil)
			l.await("restored")
			former.stop()
		case 1:
			former.ask("let go")
			former.kill()
			l = h.start(nil)
		case 2: // somewhere in it
			_, _ = former.command.WriteString("let go\n")
			pause(r, 3*time.Millisecond)
			former.kill()
			l = h.start(nil)
		case 3:
			former.kill()
			l = h.start(nil)
		}
		if t.Failed() {
			break
		}
	}
	tr.end(l)
}
