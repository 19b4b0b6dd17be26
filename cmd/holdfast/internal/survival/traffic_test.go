package survival

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"
)

var errNotOver = errors.New("one of its peers has not heard of its end")

// seed is that of all plans.
func seed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("HOLDFAST_SURVIVAL_SEED"), 10, 64); err == nil {
		return n
	}
	return rand.Uint64() >> 32
}

// kills is how many a test has: so many, or as the environment says.
func kills(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_SURVIVAL_KILLS")); err == nil {
		return n
	}
	return usual
}

// killTimes kills children at random moments of lives of at most so long, each followed
// by another one with settings, so many times unless the environment says another number.
// It is the last one, which lives.
func (h *house) killTimes(usual int, l *life, most time.Duration, set func(*settings)) *life {
	h.t.Helper()
	r := rand.New(rand.NewPCG(h.seed, 100))
	for n := 0; n < kills(usual) && !h.t.Failed(); n++ {
		pause(r, most)
		l.kill()
		l = h.start(set)
	}
	return l
}

// traffic is some clients at a time, until it is stopped.
type traffic struct {
	house   *house
	stop    chan struct{}
	clients sync.WaitGroup
}

// traffic starts so many clients, each of which connects again and again.
func (h *house) traffic(clients int, most int64, by ...*route) *traffic {
	t := &traffic{house: h, stop: make(chan struct{})}
	for i := range clients {
		r := rand.New(rand.NewPCG(h.seed, uint64(i)))
		t.clients.Go(func() {
			for {
				select {
				case <-t.stop:
					return
				default:
					h.runClient(h.newPlan(r, most, by...))
				}
			}
		})
	}
	return t
}

// end lets what is there come to its end, and the child with it, and judges.
func (t *traffic) end(l *life) {
	h := t.house
	h.t.Helper()
	close(t.stop)
	t.clients.Wait()
	h.awaitServers()
	// A loop that is killed may have accepted one that it has not counted. Who asks for
	// Multipath TCP and is reset before connect returns is tried again without (package net).
	const mostLoops = 3
	if accepted, clients := l.ask("stats").Accepted, int64(h.nextPlan.Load()); accepted > clients+h.mptcp.Load() || clients-accepted > mostLoops*h.life.Load() {
		h.t.Errorf("%d clients were accepted, it is said, and there were %d", accepted, clients)
	}
	l.stop()
	h.judgeRest()
	c := &h.counts
	most := h.windows.Load()
	if killed := h.killed.Load(); killed > 0 {
		most += 2 + killed/100 // it is one in 700 on a busy host with two cores
	}
	if n := c.verdicts[inWindow].Load(); n > most && h.tolerates == nil {
		h.t.Errorf("%d clients were lost, and only %d could be in the window", n, most)
	}
	h.t.Logf("%d lives, %d connections as planned, %d hit in the window, %d unkept, %d tolerated, %d dialled again, %d MiB",
		h.life.Load(), c.verdicts[asPlanned].Load(), c.verdicts[inWindow].Load(), c.verdicts[unkept].Load(), c.verdicts[tolerated].Load(), c.aborted.Load(), c.bytes.Load()>>20)
}

// awaitServers waits until those servers are done that have begun.
func (h *house) awaitServers() {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && h.serving(); {
		time.Sleep(10 * time.Millisecond)
	}
}

func (h *house) serving() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.plans {
		p.mu.Lock()
		serving := p.seen > 0 && p.outcome[server] == nil
		p.mu.Unlock()
		if serving {
			return true
		}
	}
	return false
}
