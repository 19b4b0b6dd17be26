package upstream

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// maxProbes is how many probes and look-ups one pool runs at a time; further
// ones wait for their turn. Each needs a descriptor, and hundreds of dead
// servers should not use up those of the clients.
const maxProbes = 64

// probe connects and hangs up.
func probe(ctx context.Context, t target, timeout time.Duration) error {
	dialer := net.Dialer{Timeout: timeout, KeepAlive: -1}
	dialer.SetMultipathTCP(false)
	conn, err := dialer.DialContext(ctx, t.network, t.address)
	if err != nil {
		return err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		// Closing with a reset leaves no TIME_WAIT, which would use up a port
		// of this host for a minute with each probe.
		_ = tcp.SetLinger(0)
	}
	return conn.Close()
}

// probers are the running probe loops of one server's endpoints. They belong to
// the goroutine that runs the server.
type probers struct {
	pool *Pool
	stop map[*Endpoint]context.CancelFunc
	wg   sync.WaitGroup
}

func newProbers(p *Pool) *probers {
	return &probers{pool: p, stop: make(map[*Endpoint]context.CancelFunc)}
}

// follow starts the probes of endpoints that are new and stops those of
// endpoints that are gone. Each ends with ctx too.
func (p *probers) follow(ctx context.Context, endpoints []*Endpoint) {
	if p.pool.cfg.Health == nil {
		return
	}
	gone := p.stop
	p.stop = make(map[*Endpoint]context.CancelFunc, len(endpoints))
	for _, e := range endpoints {
		if stop, running := gone[e]; running {
			p.stop[e] = stop
			delete(gone, e)
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		p.stop[e] = cancel
		p.wg.Go(func() { p.pool.keepProbing(ctx, e) })
	}
	for _, stop := range gone {
		stop()
	}
}

// end stops all probes and waits for them.
func (p *probers) end() {
	for _, stop := range p.stop {
		stop()
	}
	p.wg.Wait()
}

// keepProbing probes e at once and then in each interval, until ctx ends.
func (p *Pool) keepProbing(ctx context.Context, e *Endpoint) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if !p.permits.acquire(ctx) {
			return
		}
		err := probe(ctx, e.target, p.cfg.Health.Timeout)
		p.permits.release()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			e.failed(err)
		default:
			e.passed()
		}
		timer.Reset(jitter(p.cfg.Health.Interval))
	}
}

// jitter is d ± 10 %, so that probes of many servers do not march in step.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}

// permits bounds how much is done at a time.
type permits chan struct{}

// acquire waits for a permit; false when ctx ended first.
func (p permits) acquire(ctx context.Context) bool {
	select {
	case p <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p permits) release() { <-p }
