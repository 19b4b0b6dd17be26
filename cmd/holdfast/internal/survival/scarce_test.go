package survival

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
	"github.com/holdfast-proxy/holdfast/fdstore"
)

// talker is a plan of so many turns, each of them after a pause.
func (h *house) talker(by *route, turns int, pause time.Duration) *plan {
	p := h.newPlan(rand.New(rand.NewPCG(h.seed, h.nextPlan.Load())), 1, by)
	p.resets, p.mptcp = nobody, false
	for i := range p.ends {
		s := script{chunk: 4 << 10, pauses: 1, pause: pause, seed: p.ends[i].seed}
		for n := range int64(turns) {
			s.turns = append(s.turns, turn{100 * n, 100 * (n + int64(i))})
		}
		s.size = 100 * int64(turns)
		p.ends[i] = s
	}
	return p
}

// talk starts so many talkers, and returns what waits for their end.
func (h *house) talk(n int, by *route, turns int, pause time.Duration) *sync.WaitGroup {
	var all sync.WaitGroup
	for range n {
		all.Go(func() { h.runClient(h.talker(by, turns, pause)) })
	}
	return &all
}

func TestWhoFoundNoRoomIsKeptWhenThereIsSome(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	few := func(s *settings) { s.InFlight, s.Loops = 40, 2 }
	l := h.start(few)
	tcp := h.routes[0]
	first := h.talk(20, tcp, 10, 100*time.Millisecond)
	testbed.Eventually(t, patience, "there is no room any more", func() bool { return l.ask("stats").Kept == 20 })
	second := h.talk(15, tcp, 200, 100*time.Millisecond)
	testbed.Eventually(t, patience, "the others are unkept", func() bool { return l.ask("stats").Unkept >= 10 })
	first.Wait()
	testbed.Eventually(t, patience, "all are kept", func() bool {
		s := l.ask("stats")
		return s.Unkept == 0 && s.Active == 15
	})
	for range 3 {
		l.kill()
		l = h.start(few)
		require.Equal(t, 15, l.await("restored").Restored)
	}
	second.Wait()
	(&traffic{house: h, stop: make(chan struct{})}).end(l)
}

// Who is not kept ends with the process, but whom one child has found no other loses.
func TestKilledWhileSomeAreKeptLateNobodyIsLostWhoIsKept(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.tolerates = func(p *plan) bool { return !p.found && p.wasReset() }
	few := func(s *settings) { s.InFlight, s.Loops = 60, 2 }
	r := rand.New(rand.NewPCG(h.seed, 800))
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 60 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					h.runClient(h.talker(h.routes[0], 20, 100*time.Millisecond))
				}
			}
		})
	}
	var hits [2]int
	for n := 0; n < kills(6) && !t.Failed(); n++ {
		at := boundary{"sendmsg of a client anew", n%2 == 1, true}
		if h.traced(few, at, r.IntN(5), 10*time.Second, map[boundary]int{}) {
			hits[n%2]++
		}
	}
	close(stop)
	l := h.start(few)
	clients.Wait()
	(&traffic{house: h, stop: make(chan struct{})}).end(l)
	t.Log(hits)
	assert.Positive(t, hits[0], "never before")
	assert.Positive(t, hits[1], "never after")
}

// The kernel gives a user 64 MiB of pipes in full, and two pages each beyond that.
func TestKilledWithMoreStreamsToUnixServersThanPipesNothingIsLost(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	l := h.start(nil)
	var all sync.WaitGroup
	for range 400 {
		all.Go(func() {
			p := h.newPlan(rand.New(rand.NewPCG(h.seed, h.nextPlan.Load())), 1, h.routes[1])
			p.resets, p.mptcp = nobody, false
			p.ends[client] = script{size: 1 << 20, chunk: 64 << 10, seed: p.ends[client].seed}
			p.ends[server] = script{size: 1, chunk: 1, stalls: 1, seed: p.ends[server].seed}
			h.runClient(p)
		})
	}
	l = h.killTimes(10, l, 300*time.Millisecond, nil)
	all.Wait()
	(&traffic{house: h, stop: make(chan struct{})}).end(l)
}

// What a Unix socket was written is noted after each write, where no pipe tells it.
func TestKilledWhileUnixServersWithoutPipesStandStillNothingIsLost(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	pipeless := func(s *settings) { s.Pipeless = true }
	l := h.start(pipeless)
	reads := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(reads) })
	t.Cleanup(goOn)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			p := h.newPlan(rand.New(rand.NewPCG(h.seed, h.nextPlan.Load())), 1, h.routes[1])
			p.resets, p.mptcp = nobody, false
			p.ends[client] = script{size: 1 << 20, chunk: 64 << 10, seed: p.ends[client].seed}
			p.ends[server] = script{size: 1, chunk: 1, reads: reads, seed: p.ends[server].seed}
			h.runClient(p)
		})
	}
	for range kills(5) {
		l.awaitStandstill(50)
		l.kill()
		l = h.start(pipeless)
		require.Equal(t, 50, l.await("restored").Restored)
	}
	goOn()
	all.Wait()
	(&traffic{house: h, stop: make(chan struct{})}).end(l)
}

func TestKilledWhileThereIsNoRoomNoByteIsWrong(t *testing.T) {
	for name, few := range map[string]func(*settings){
		"in flight":    func(s *settings) { s.InFlight = 50 },
		"in the table": func(s *settings) { s.Slots = 30 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.tolerates = (*plan).wasReset // who is not kept ends with the process
			l := h.start(few)
			tr := h.traffic(60, 1<<20)
			tr.end(h.killTimes(20, l, 150*time.Millisecond, few))
		})
	}
}

func TestWithoutTheEndThatOneSendsToASegmentIsOfUse(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	r := rand.New(rand.NewPCG(h.seed, 500))
	l := h.start(nil)
	tr := h.traffic(60, 1<<20)
	for range kills(20) {
		pause(r, 150*time.Millisecond)
		l.kill()
		var rest []fdstore.Held
		for _, held := range h.held() {
			if strings.HasSuffix(held.Name, "/in") && r.IntN(3) == 0 {
				require.NoError(t, held.FD.Close())
				continue
			}
			rest = append(rest, held)
		}
		l = h.spawn(nil, nil, rest)
		if t.Failed() {
			break
		}
	}
	tr.end(l)
}
