package survival

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

// house is what outlives the children: the listening sockets, the store, and both peers
// of all connections.
type house struct {
	t       *testing.T
	dir     string
	seed    uint64
	manager *storetest.Manager
	routes  []*route

	// tolerates tells whether a connection may have ended as it has, although it was
	// not planned; no byte may be wrong. nil = none may. It is called by one at a time.
	tolerates func(*plan) bool

	life     atomic.Int64 // how many children there were
	killed   atomic.Int64 // of these at moments of which nothing is known
	windows  atomic.Int64 // that others were killed in
	ended    atomic.Int64 // connections that a child was ending when it was killed
	lives    []*life      // the last ones
	counts   counts
	nextPlan atomic.Uint64
	mptcp    atomic.Int64 // how many plans ask for Multipath TCP
	mu       sync.Mutex
	plans    map[uint64]*plan // that are not judged yet
	failures int
}

// counts are how many connections went how.
type counts struct {
	verdicts [4]atomic.Int64
	aborted  atomic.Int64 // dialled again
	bytes    atomic.Int64
}

func newHouse(t *testing.T) *house {
	t.Helper()
	dir, err := os.MkdirTemp("", "survival") // short: Unix sockets have their paths here
	require.NoError(t, err)
	h := &house{t: t, dir: dir, seed: seed(), plans: map[uint64]*plan{}, routes: routes()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d; what the children have logged is in %s", h.seed, dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	h.manager = storetest.Start(t, 2000)
	for _, r := range h.routes {
		r.listen(t, dir)
		if r.refusing {
			r.backends = append(r.backends, refuser(t))
		}
		r.backends = append(r.backends, h.serve(r))
	}
	return h
}

// serve starts the server of a route.
func (h *house) serve(r *route) (address string) {
	h.t.Helper()
	address = "127.0.0.1:0"
	if r.to == "unix" {
		address = filepath.Join(h.dir, "server-of-"+r.name)
	}
	l, err := net.Listen(r.to, address)
	require.NoError(h.t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			all.Go(func() { h.runServer(r, c) })
		}
	})
	h.t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

// newPlan makes a plan by one of the routes.
func (h *house) newPlan(r *rand.Rand, most int64, by ...*route) *plan {
	if len(by) == 0 {
		by = h.routes
	}
	p := newPlan(r, h.nextPlan.Add(1), by[r.IntN(len(by))], most)
	if p.mptcp {
		h.mptcp.Add(1)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.plans[p.id] = p
	return p
}

func (h *house) planOf(id uint64) *plan {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.plans[id]
}

// over notes what one end has seen, and judges when both have.
func (h *house) over(p *plan, end int, o outcome) {
	o.life = int(h.life.Load())
	h.counts.bytes.Add(o.received)
	p.mu.Lock()
	p.outcome[end] = &o
	both := p.outcome[client] != nil && p.outcome[server] != nil
	p.mu.Unlock()
	if both {
		h.judge(p)
	}
}

// judge judges once.
func (h *house) judge(p *plan) {
	p.mu.Lock()
	if p.judged {
		p.mu.Unlock()
		return
	}
	p.judged = true
	v, err := p.judge()
	p.mu.Unlock()
	h.mu.Lock()
	delete(h.plans, p.id)
	if err != nil && h.tolerates != nil && !p.wrong() && h.tolerates(p) {
		v, err = tolerated, nil
	}
	h.mu.Unlock()
	if err != nil {
		h.failed(p, err)
		return
	}
	h.counts.verdicts[v].Add(1)
}

// mostFailures is how many are told of.
const mostFailures = 5

func (h *house) failed(p *plan, err error) {
	h.mu.Lock()
	h.failures++
	enough := h.failures > mostFailures
	h.mu.Unlock()
	if enough {
		h.t.Fail()
		return
	}
	h.t.Errorf("%v\n%s\n%s", err, p.text(), h.recent())
}

// recent tells of the last lives.
func (h *house) recent() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := "seed " + strconv.FormatUint(h.seed, 10)
	for _, l := range h.lives {
		text += "\n\t" + l.text()
	}
	return text
}

// judgeRest judges the connections of which no server has heard. The children are gone.
func (h *house) judgeRest() {
	h.mu.Lock()
	var rest []*plan
	for _, p := range h.plans {
		rest = append(rest, p)
	}
	h.mu.Unlock()
	for _, p := range rest {
		p.mu.Lock()
		over := p.outcome[client] != nil && (p.seen == 0 || p.outcome[server] != nil)
		p.mu.Unlock()
		if over {
			h.judge(p)
		} else {
			h.failed(p, errNotOver)
		}
	}
}
