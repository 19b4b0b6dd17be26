package upstream

import (
	"context"
	"slices"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// server is one configured server and the endpoints it has now.
type server struct {
	pool    *Pool
	address config.Address
	name    string // the address as configured
	kind    addressKind
	wake    signal // for a look-up before the period is over; nil when nothing is ever looked up
	records *records

	// Pool.mu guards the rest.
	endpoints []*Endpoint     // its addresses, in the order in which they were found
	awaited   bool            // Pool.Resolved waits for its first look-up
	told      map[string]Down // by another process, by address, until addresses are known
	lookedUp  bool            // at least once
	lookUpErr string          // of the last look-up; "" when it worked
}

func newServer(p *Pool, address config.Address) *server {
	s := &server{
		pool:    p,
		address: address,
		name:    address.String(),
		kind:    kindOf(address),
		records: newRecords(),
		awaited: true,
	}
	if s.kind != fixed {
		s.wake = newSignal()
	}
	return s
}

// run follows the addresses and the health of the server until ctx ends.
func (s *server) run(ctx context.Context) {
	probers := newProbers(s.pool)
	defer probers.end()
	probers.follow(ctx, s.current())
	if s.kind == fixed {
		<-ctx.Done()
		return
	}
	s.keepLookedUp(ctx, func() { probers.follow(ctx, s.current()) })
}

func (s *server) current() []*Endpoint {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.endpoints
}

// label begins each log line about the server.
func (s *server) label() string {
	return "upstream " + s.pool.cfg.Name + ": server " + s.name
}

// move gives the server the endpoints of targets, which are not empty, and
// tells whether that changed anything. An address that was known before keeps
// its endpoint and its place: DNS servers turn the order of their answers.
// Pool.mu is held.
func (s *server) move(targets []target) (changed bool) {
	var next []*Endpoint
	for _, e := range s.endpoints {
		if slices.Contains(targets, e.target) {
			next = append(next, e)
		} else {
			s.pool.slots.release(e.slot)
		}
	}
	for _, t := range targets {
		if !slices.ContainsFunc(next, func(e *Endpoint) bool { return e.target == t }) {
			next = append(next, s.endpoint(t))
		}
	}
	changed = !slices.Equal(next, s.endpoints)
	s.endpoints, s.told = next, nil
	return changed
}

// endpoint makes the endpoint of t. Pool.mu is held.
func (s *server) endpoint(t target) *Endpoint {
	e := &Endpoint{
		record:   s.records.of(t),
		limits:   limitsOf(s.pool.cfg.Health),
		slot:     s.pool.slots.take(),
		seed:     t.seed(),
		target:   t,
		name:     t.String(),
		sockaddr: []byte(t.sockaddr),
		label:    s.label(),
		wake:     s.wake,
		changed:  s.pool.changed,
	}
	if d, ok := s.told[e.name]; ok && !e.limits.off() {
		e.beginDown(d)
	}
	if s.kind == named {
		e.label += " (" + t.address + ")"
	}
	return e
}

// answered says that there is an answer to the first look-up, if only that there
// is none. Pool.mu is held.
func (s *server) answered() {
	if s.awaited {
		s.awaited = false
		s.pool.answered()
	}
}

// status: a server is healthy while one of its endpoints is, or until its name
// was looked up. Pool.mu is held.
func (s *server) status() status.Server {
	st := status.Server{
		Address:     s.name,
		Healthy:     !s.lookedUp,
		Connections: s.records.connections(),
		LastError:   s.lookUpErr,
	}
	for _, e := range s.endpoints {
		st.Healthy = st.Healthy || !e.down()
		if st.LastError == "" {
			st.LastError = e.lastErrorText()
		}
	}
	return st
}
