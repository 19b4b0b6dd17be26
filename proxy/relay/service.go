package relay

import (
	"net/netip"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/upstream"
)

// Service is what a listener of one generation does with the connections it
// accepts. It is never changed; a connection keeps the one that accepted it.
type Service struct {
	Listener    string // its name
	Generation  uint64
	Pool        *upstream.Pool
	Limit       *Limit
	Trusted     []netip.Prefix // clients in these must send a PROXY header first; empty = nobody
	IdleTimeout time.Duration  // without a byte either way for this long a connection is ended; 0 = never

	ConnectTimeout time.Duration // of one attempt
	ConnectRetry   time.Duration // how long a client waits for a server; 0 = one round over all
	SendProxy      int           // the PROXY header sent to the server: version 1 or 2; 0 = none
}
