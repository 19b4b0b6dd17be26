package proxy

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/relay"
	"github.com/holdfast-proxy/holdfast/proxy/status"
	"github.com/holdfast-proxy/holdfast/proxy/upstream"
)

// Options of an Engine.
type Options struct {
	Version     string
	Loops       int // event loops of the relay
	Descriptors int // the process's limit of open descriptors
	Log         *slog.Logger
}

// Socket is one listening socket that is handed to an engine.
type Socket struct {
	FD       int
	Label    string // transport and bound address, "tcp 127.0.0.1:8080"
	Listener string // name of the listener that it serves
	Origin   string // "systemd", "bind", …
	// Shared tells that somebody else listens on after this process, so that
	// clients in the queue are left to them.
	Shared bool
	// Close closes the descriptor. It is called once, when no loop uses it.
	Close func() error
}

// Engine serves one configuration at a time. Its methods may be called from any
// goroutine.
type Engine struct {
	options Options
	log     *slog.Logger
	relay   *relay.Relay
	started time.Time

	mu         sync.Mutex
	state      status.State
	generation uint64
	config     *config.Config
	sockets    []*listening
	pools      []*upstream.Pool
	stopPools  context.CancelFunc
	running    sync.WaitGroup // the pools
	accessLog  atomic.Bool
}

// listening is a socket while the engine has it.
type listening struct {
	Socket
	relayed *relay.Socket
	closed  bool
}

// New makes an engine that serves nothing yet.
func New(o Options) (*Engine, error) {
	e := &Engine{options: o, log: o.Log, started: time.Now(), state: status.Starting, stopPools: func() {}}
	r, err := relay.New(relay.Options{Loops: o.Loops, Descriptors: o.Descriptors, Log: o.Log, OnEnd: e.logEnd})
	if err != nil {
		return nil, err
	}
	e.relay = r
	return e, nil
}

// Start serves cfg on the sockets, which are the engine's from now on; each is for
// a listener of cfg. The names of its servers are looked up first, for as long as
// ctx allows; if ctx is canceled meanwhile, nothing is served and Stop is to follow.
// It is called once.
func (e *Engine) Start(ctx context.Context, cfg *config.Config, sockets []Socket) {
	e.mu.Lock()
	services := e.services(cfg)
	e.mu.Unlock()
	e.awaitNames(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range sockets {
		e.sockets = append(e.sockets, &listening{Socket: s, relayed: relay.NewSocket(s.FD, s.Label, services[s.Listener])})
	}
	e.config = cfg
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	e.generation++
	e.state = status.Running
	e.accessLog.Store(cfg.Global.AccessLog)
	e.relay.SetReporting(cfg.Global.AccessLog || e.log.Enabled(ctx, slog.LevelDebug))
	for _, l := range e.sockets {
		e.relay.Serve(l.relayed)
		e.log.Info("listening", "listener", l.Listener, "socket", l.Label, "origin", l.Origin)
	}
}

// services makes what each listener does, and starts the pools.
func (e *Engine) services(cfg *config.Config) map[string]*relay.Service {
	ctx, cancel := context.WithCancel(context.Background())
	e.stopPools = cancel
	pools := make(map[string]*upstream.Pool, len(cfg.Upstreams))
	for _, u := range cfg.Upstreams {
		pool := upstream.New(u, e.log)
		pools[u.Name] = pool
		e.pools = append(e.pools, pool)
		e.running.Go(func() { pool.Run(ctx) })
	}
	services := make(map[string]*relay.Service, len(cfg.Listeners))
	for _, l := range cfg.Listeners {
		services[l.Name] = newService(l, pools[l.Upstream], e.generation+1)
	}
	return services
}

func newService(l config.Listener, pool *upstream.Pool, generation uint64) *relay.Service {
	s := &relay.Service{
		Listener: l.Name, Generation: generation, Pool: pool, Limit: relay.NewLimit(l.MaxConnections),
		IdleTimeout: l.IdleTimeout, ConnectTimeout: pool.Config().ConnectTimeout, ConnectRetry: pool.Config().ConnectRetry,
	}
	if l.AcceptProxy {
		s.Trusted = l.Trusted
	}
	switch pool.Config().SendProxy {
	case config.SendProxyV1:
		s.SendProxy = 1
	case config.SendProxyV2:
		s.SendProxy = 2
	case config.SendProxyOff:
	}
	return s
}

// awaitNames waits for the first look-up of every name, so that the first client
// does not find servers without addresses.
func (e *Engine) awaitNames(ctx context.Context) {
	for _, p := range e.pools {
		select {
		case <-p.Resolved():
		case <-ctx.Done():
			return
		}
	}
}

// Connections is how many are alive now, and how many ever were accepted.
func (e *Engine) Connections() (active, accepted int64) {
	s := e.relay.Stats()
	return s.Active, s.Accepted
}

// Rest takes every socket out of service if no connection is alive, and tells
// whether it has; Stop is to follow then. It is for sockets that are all shared:
// who is in a queue stays there for the next start, and a client that was accepted
// while Rest looked is served on.
func (e *Engine) Rest() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	released := make([]<-chan struct{}, len(e.sockets))
	for i, l := range e.sockets {
		released[i] = e.relay.Release(l.relayed, false)
	}
	for _, gone := range released {
		<-gone
	}
	if e.relay.Stats().Active == 0 {
		return true
	}
	for _, l := range e.sockets {
		e.relay.Serve(l.relayed)
	}
	return false
}

// Stop ends the engine. It takes its sockets out of service first, serves who
// already waits in their queues, lets connections finish until ctx ends, and
// closes what is left then. It is called once.
func (e *Engine) Stop(ctx context.Context) {
	e.mu.Lock()
	e.state = status.Draining
	sockets := e.sockets
	e.mu.Unlock()
	e.release(ctx, sockets)
	if left := e.awaitConnections(ctx); left > 0 {
		e.log.Info("closing what is left", "connections", left)
		e.relay.HangUp()
	}
	e.relay.Close()
	for _, l := range sockets {
		e.close(l) // whose queue could not be served in time
	}
	e.stopPools()
	e.running.Wait()
}

// release takes sockets out of service, and closes each as soon as its queue is
// served, so that further clients are refused at once. It gives up when ctx ends.
func (e *Engine) release(ctx context.Context, sockets []*listening) {
	var closing sync.WaitGroup
	for _, l := range sockets {
		released := e.relay.Release(l.relayed, !l.Shared)
		closing.Go(func() {
			select {
			case <-released:
				e.close(l)
			case <-ctx.Done():
			}
		})
	}
	closing.Wait()
}

// close closes a socket that no loop uses, if it is open yet.
func (e *Engine) close(l *listening) {
	if l.closed {
		return
	}
	l.closed = true
	if err := l.Close(); err != nil {
		e.log.Warn("cannot close socket", "socket", l.Label, "error", err.Error())
	}
}

// awaitConnections waits until no connection is left or ctx ends, and returns how
// many are left.
func (e *Engine) awaitConnections(ctx context.Context) int64 {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		left := e.relay.Stats().Active
		if left == 0 {
			return 0
		}
		select {
		case <-ctx.Done():
			return left
		case <-look.C:
		}
	}
}
