package upstream

import "github.com/holdfast-proxy/holdfast/proxy/config"

// Next builds the pool for a changed configuration of the same upstream. Of each
// server that both have it knows from the start what p knows: its addresses, its
// connections whichever pool opened them, its health, last error and penalty.
// From then on the two share all that but the addresses: what happens to a
// connection of one counts in the other. Changed limits of the health checks hold
// in the new pool only.
//
// Next changes nothing for p, which may run on beside the new pool, or instead of
// it if that is not wanted after all. It may be called while p is in use.
func (p *Pool) Next(cfg config.Upstream) *Pool {
	next := build(cfg, p.log)
	next.lookUp = p.lookUp
	before := make(map[config.Address]*server, len(p.servers))
	for _, s := range p.servers {
		before[s.address] = s
	}
	p.mu.Lock()
	for _, s := range next.servers {
		if old, known := before[s.address]; known {
			s.succeed(old)
		}
	}
	p.mu.Unlock()
	next.begin()
	return next
}

// succeed takes over what old knows of the same server. The mu of old's pool is
// held; nobody else has the new pool yet.
func (s *server) succeed(old *server) {
	s.records, s.told, s.lookedUp, s.lookUpErr = old.records, old.told, old.lookedUp, old.lookUpErr
	if len(old.endpoints) == 0 {
		return // its name never had an address; a look-up is awaited as for a new one
	}
	targets := make([]target, len(old.endpoints))
	for i, e := range old.endpoints {
		targets[i] = e.target
		if e.limits.off() {
			// Nobody checked it; what an earlier generation found is out of date.
			e.record.health.forget()
		}
	}
	s.move(targets)
	s.answered()
}
