package proxy

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/relay"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// Options of an Engine.
type Options struct {
	Version     string
	Loops       int // event loops of the relay
	Descriptors int // the process's limit of open descriptors
	Log         *slog.Logger
}

// Engine serves one generation after the other, and the connections of all of them.
// Its methods may be called from any goroutine.
type Engine struct {
	options Options
	log     *slog.Logger
	relay   *relay.Relay
	started time.Time

	changing sync.Mutex              // held by Apply, Rest and Stop: one at a time
	limits   map[string]*relay.Limit // of the listeners; belongs to who holds changing
	expected map[string]int64        // connections by listener, likewise

	mu         sync.Mutex // guards what status reads
	state      status.State
	generation uint64
	config     *config.Config
	lastError  string
	held       bool          // by Hold: nobody is accepted
	attached   bool          // connections are kept
	pause      time.Duration // of those that another process has left
	lost       int64         // connections that another process has left, and that could not go on
	sockets    []*listening  // those of the generation, then those that drain
	pools      []*pool       // those of the generation, in the order of its upstreams
	drainNotes drainNotes
	usesNoted  map[uint32][]byte // by another process, until Restore

	running   sync.WaitGroup // pools, and drains
	ended     chan struct{}  // closed when no connection is left, at the end of Stop
	accessLog atomic.Bool
	downNotes downNotes
}

// New makes an engine that serves nothing yet.
func New(o Options) (*Engine, error) {
	e := &Engine{options: o, log: o.Log, started: time.Now(), state: status.Starting, limits: map[string]*relay.Limit{}, ended: make(chan struct{})}
	r, err := relay.New(relay.Options{Loops: o.Loops, Descriptors: o.Descriptors, Log: o.Log, OnEnd: e.logEnd})
	if err != nil {
		return nil, err
	}
	e.relay = r
	return e, nil
}

// Connections is how many are alive now, and how many ever were accepted.
func (e *Engine) Connections() (active, accepted int64) {
	s := e.relay.Stats()
	return s.Active, s.Accepted
}

// ConnectionsByListener is how many are alive of each listener, for Expect of another process.
func (e *Engine) ConnectionsByListener() map[string]int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	counts := make(map[string]int64)
	for _, l := range e.sockets {
		counts[l.Listener] += l.connections()
	}
	return counts
}

// Unkept is how many of those that are alive end with this process, although there is a
// vault.
func (e *Engine) Unkept() int64 { return e.relay.Stats().Unkept }

// Turn returns when each event loop has turned once more, or with ctx's error.
func (e *Engine) Turn(ctx context.Context) error { return e.relay.Turn(ctx) }

// Refused notes why the last change of the configuration was not applied. Status
// shows it until one is.
func (e *Engine) Refused(reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastError = reason
}
