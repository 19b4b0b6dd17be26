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
	wake    signal // for a look-up before the period is over

	// Pool.mu guards the rest.
	endpoints []*Endpoint // its addresses, in the order in which they were found
	retired   []*Endpoint // former addresses with connections
	lookedUp  bool        // at least once
	lookUpErr string      // of the last look-up; "" when it worked
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
// its endpoint, and so its health and counters, and its place: DNS servers
// turn the order of their answers. Pool.mu is held.
func (s *server) move(targets []target) (changed bool) {
	var next []*Endpoint
	for _, e := range s.endpoints {
		if slices.Contains(targets, e.target) {
			next = append(next, e)
		}
	}
	for _, t := range targets {
		if find(next, t) == nil {
			next = append(next, s.endpoint(t))
		}
	}
	former := slices.Concat(s.retired, s.endpoints)
	s.retired = nil
	for _, e := range former {
		switch {
		case slices.Contains(next, e):
		case e.connections.Load() > 0:
			s.retired = append(s.retired, e)
		default:
			s.pool.slots.release(e.slot)
		}
	}
	changed = !slices.Equal(next, s.endpoints)
	s.endpoints = next
	return changed
}

// endpoint is the retired endpoint of t or a new one. Pool.mu is held.
func (s *server) endpoint(t target) *Endpoint {
	if e := find(s.retired, t); e != nil {
		return e
	}
	e := &Endpoint{
		server:   s,
		target:   t,
		name:     t.String(),
		sockaddr: []byte(t.sockaddr),
		slot:     s.pool.slots.take(),
		seed:     t.seed(),
	}
	e.health.configure(s.pool.cfg.Health)
	return e
}

func find(endpoints []*Endpoint, t target) *Endpoint {
	i := slices.IndexFunc(endpoints, func(e *Endpoint) bool { return e.target == t })
	if i < 0 {
		return nil
	}
	return endpoints[i]
}

// status: a server is healthy while one of its endpoints is, or until its name
// was looked up. Pool.mu is held.
func (s *server) status() status.Server {
	st := status.Server{
		Address:   s.name,
		Healthy:   !s.lookedUp,
		LastError: s.lookUpErr,
	}
	for _, e := range s.endpoints {
		st.Connections += e.connections.Load()
		st.Healthy = st.Healthy || !e.health.down()
		if st.LastError == "" {
			st.LastError = e.lastErrorText()
		}
	}
	for _, e := range s.retired {
		st.Connections += e.connections.Load()
	}
	return st
}
