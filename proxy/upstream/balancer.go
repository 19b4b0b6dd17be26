package upstream

import (
	"net/netip"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// balancer chooses among equally good endpoints. It is called from several
// threads at once and must neither allocate nor block. c is never empty.
type balancer interface {
	// pick chooses for a client, whose address is the zero Addr when it has none.
	pick(c candidates, client netip.Addr) *Endpoint
	// peek is the likely answer of the next pick for an unknown client. It
	// changes nothing.
	peek(c candidates) *Endpoint
}

func newBalancer(b config.Balance) balancer {
	switch b {
	case config.LeastConnections:
		return new(leastConnections)
	case config.Random2:
		return random2{}
	case config.SourceHash:
		return new(sourceHash)
	case config.RoundRobin:
	}
	return new(roundRobin)
}
