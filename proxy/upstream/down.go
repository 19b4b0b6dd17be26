package upstream

// Down is an address of a server that has failed its health checks, for the next process
// to know from the start.
type Down struct {
	Upstream string `json:"upstream"`
	Server   string `json:"server"`  // as configured
	Address  string `json:"address"` // one of its addresses, as [Endpoint.String] says
	Error    string `json:"error"`   // of its last dial or probe
}

// byServer groups what is told of one upstream, by server and address.
func byServer(upstream string, told []Down) map[string]map[string]Down {
	groups := make(map[string]map[string]Down)
	for _, d := range told {
		if d.Upstream != upstream {
			continue
		}
		if groups[d.Server] == nil {
			groups[d.Server] = make(map[string]Down)
		}
		groups[d.Server][d.Address] = d
	}
	return groups
}

// Down tells which addresses are down. Among them are those that were when a process
// before this one told so, and whose name was not looked up yet.
func (p *Pool) Down() []Down {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Down
	for _, s := range p.servers {
		for _, e := range s.endpoints {
			if e.down() {
				list = append(list, Down{Upstream: p.cfg.Name, Server: s.name, Address: e.name, Error: e.lastErrorText()})
			}
		}
		for _, d := range s.told {
			list = append(list, d)
		}
	}
	return list
}

// beginDown has a new endpoint begin as another process has left it.
func (e *Endpoint) beginDown(d Down) {
	if d.Error != "" {
		e.record.lastError.Store(&d.Error)
	}
	e.record.health.beginDown(e.limits)
}
