package upstream

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// Pool is the servers of one upstream, for one generation of its configuration.
type Pool struct {
	// OnHealth is called by Run after an address went up or down. It is set before Run;
	// nil = nobody is.
	OnHealth func()

	cfg      config.Upstream
	log      *slog.Logger
	lookUp   lookUpFunc
	balancer balancer
	servers  []*server // in configured order; the list never changes
	permits  permits
	changed  signal // some endpoint went up or down
	resolved chan struct{}

	// current is what Pick reads: never changed, only replaced.
	current atomic.Pointer[snapshot]

	mu      sync.Mutex // never held while something is waited for
	slots   slots
	awaited int // servers that Resolved waits for
}

// snapshot is every endpoint of every server at one time, in configured order.
type snapshot struct {
	endpoints []*Endpoint
	family    int // of all of them; 0 when they differ or there is none
}

// New builds the pool of one upstream. Literal addresses can be picked at once.
// Names are looked up, and health is checked, from Run on.
//
// told is which servers were down in a process before this one, nil = none is known to
// have been. Such a server is down until one dial or probe works: how many had worked in a
// row by then is not known, and it is not to be down for longer than it would have been
// there. Probes begin at once. Who is no server any more, or is not checked, is passed over.
func New(cfg config.Upstream, log *slog.Logger, told []Down) *Pool {
	p := build(cfg, log)
	groups := byServer(cfg.Name, told)
	for _, s := range p.servers {
		s.told = groups[s.name]
	}
	p.begin()
	return p
}

// build makes a pool that knows nothing of its servers yet.
func build(cfg config.Upstream, log *slog.Logger) *Pool {
	p := &Pool{
		cfg:      cfg,
		log:      log,
		lookUp:   lookUpDNS,
		balancer: newBalancer(cfg.Balance),
		permits:  make(permits, maxProbes),
		changed:  newSignal(),
		resolved: make(chan struct{}),
		awaited:  len(cfg.Servers),
	}
	for _, address := range cfg.Servers {
		p.servers = append(p.servers, newServer(p, address))
	}
	return p
}

// begin gives Pick what is known already, and finds the addresses that no name
// server has to be asked for.
func (p *Pool) begin() {
	p.mu.Lock()
	p.publish()
	p.mu.Unlock()
	for _, s := range p.servers {
		if s.kind != named {
			s.refresh(context.Background())
		}
	}
}

// Name is the name of the upstream in the configuration.
func (p *Pool) Name() string { return p.cfg.Name }

// Config is what the pool was built from.
func (p *Pool) Config() config.Upstream { return p.cfg }

// Resolved is closed when each server name was looked up once, with or without
// success. Without names it is closed from the start, and so it is if a pool
// before this one knew an address for each. A pool whose Run ends early may never
// close it.
func (p *Pool) Resolved() <-chan struct{} { return p.resolved }

// Run looks names up and probes health until ctx ends. It returns when all its
// goroutines have. It may be called once. Afterwards the pool can still be used,
// for clients that have yet to reach a server: Pick knows what was known then,
// and how the dials of all generations end.
func (p *Pool) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, s := range p.servers {
		wg.Go(func() { s.run(ctx) })
	}
	p.report(ctx)
	wg.Wait()
}

// report logs endpoints that go up or down until ctx ends. Dials are recorded
// in event loops, which must not wait for a log.
func (p *Pool) report(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		}
		told := false
		for _, e := range p.current.Load().endpoints {
			isDown, news := e.record.health.report()
			switch {
			case !news:
			case isDown:
				p.log.Warn(e.label + " is down: " + e.lastErrorText())
			default:
				p.log.Info(e.label + " is up")
			}
			told = told || news
		}
		if told && p.OnHealth != nil {
			p.OnHealth()
		}
	}
}

// Pick chooses the endpoint for the next attempt of one connection and notes it
// in tried. Endpoints that work come first, then those that failed a dial
// within the last second, then those that failed their health checks: a pool
// never gives up. It is nil when each was tried or no address is known.
//
// client is the zero Addr for a client of a Unix socket; now is the caller's
// monotonic clock in nanoseconds.
func (p *Pool) Pick(client netip.Addr, tried *Tried, now int64) *Endpoint {
	endpoints := p.current.Load().endpoints
	c := newCandidates(endpoints, *tried, now)
	if c.n == 0 {
		if len(endpoints) == 0 {
			p.lookUpSoon() // a client waits for a name to appear
		}
		return nil
	}
	e := p.balancer.pick(c, client)
	tried.add(e)
	return e
}

// At is the endpoint with an address in the form of connect(2), nil when the pool has
// none: for connections that another process has made.
func (p *Pool) At(sockaddr []byte) *Endpoint {
	for _, e := range p.current.Load().endpoints {
		if len(sockaddr) > 0 && bytes.Equal(e.sockaddr, sockaddr) {
			return e
		}
	}
	return nil
}

// Family is the address family that the next Pick of a new connection most
// likely gives: AF_INET, AF_INET6 or AF_UNIX; 0 when no address is known. It is
// a guess where the families of a pool differ.
func (p *Pool) Family() int {
	s := p.current.Load()
	if s.family != 0 || len(s.endpoints) == 0 {
		return s.family
	}
	const afterPenalties = math.MaxInt64
	return p.balancer.peek(newCandidates(s.endpoints, Tried{}, afterPenalties)).Family()
}

// Status is the state of each server, in configured order. A server with
// several addresses is healthy while one of them is. Its last error is that of
// its look-up, else of the first address whose last dial or probe failed.
func (p *Pool) Status() status.Upstream {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := status.Upstream{Name: p.cfg.Name, Servers: []status.Server{}}
	for _, s := range p.servers {
		st.Servers = append(st.Servers, s.status())
	}
	return st
}

// publish gives Pick the endpoints that the servers have now. p.mu is held.
func (p *Pool) publish() {
	next := new(snapshot)
	for _, s := range p.servers {
		next.endpoints = append(next.endpoints, s.endpoints...)
	}
	next.family = commonFamily(next.endpoints)
	p.current.Store(next)
}

// answered counts a server that Resolved waited for. p.mu is held.
func (p *Pool) answered() {
	p.awaited--
	if p.awaited == 0 {
		close(p.resolved)
	}
}

// lookUpSoon asks for a look-up now, or a second after the last one.
func (p *Pool) lookUpSoon() {
	for _, s := range p.servers {
		s.wake.signal()
	}
}

// commonFamily is 0 when the families differ or there is no endpoint.
func commonFamily(endpoints []*Endpoint) int {
	family := 0
	for _, e := range endpoints {
		if family != 0 && e.Family() != family {
			return 0
		}
		family = e.Family()
	}
	return family
}
