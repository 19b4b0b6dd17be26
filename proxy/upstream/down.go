package upstream

import (
	"log/slog"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// Down is an address of a server that has failed its health checks, for the next process
// to know from the start.
type Down struct {
	Upstream string `json:"upstream"`
	Server   string `json:"server"`  // as configured
	Address  string `json:"address"` // one of its addresses, as [Endpoint.String] says
	Error    string `json:"error"`   // of its last dial or probe
}

// Recall is New with what another process has told of the servers. What was down is so
// until one dial or probe works: how many had worked in a row by then is not known, and
// it is not to be down for longer than it would have been there. Probes begin at once. Who
// is no server any more, or is not checked, is passed over.
func Recall(cfg config.Upstream, log *slog.Logger, told []Down) *Pool {
	p := build(cfg, log)
	for _, s := range p.servers {
		s.recalled = make(map[string]Down)
		for _, d := range told {
			if d.Upstream == cfg.Name && d.Server == s.name {
				s.recalled[d.Address] = d
			}
		}
	}
	p.begin()
	return p
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
		for _, d := range s.recalled {
			list = append(list, d)
		}
	}
	return list
}

// recall has a new endpoint begin as another process has left it.
func (e *Endpoint) recall(d Down) {
	if d.Error != "" {
		e.record.lastError.Store(&d.Error)
	}
	e.record.health.recall(e.limits)
}
