// Package config loads the configuration of the proxy and says everything that
// is wrong with it, each with its place.
//
// It owns the names of the keys, their defaults, their ranges and the rules
// between them. It never opens a socket, resolves a name or changes a file.
//
// Four sources are laid over each other, the later ones win: the defaults, one
// file (TOML, YAML or JSON), environment variables that begin with HOLDFAST_,
// and the flags of the command line. [Load] does it all and returns either a
// whole, valid [Config] or an [*Error] that lists every [Problem]. The example in
// testdata/example.toml has every key with its meaning.
//
// A process that reads its configuration again, or keeps it for the process that
// follows, does the two steps of Load apart:
//
//	in, err := source.Read() // the only step that touches the file system
//	cfg, err := in.Parse()   // the same for the same Inputs, now and later
//
// [Inputs] have a JSON form for that.
package config

import (
	"net"
	"net/netip"
	"reflect"
	"strconv"
	"time"
)

// DefaultPath is the file of serve and check where no flag names one.
const DefaultPath = "/etc/holdfast/holdfast.toml"

// DefaultName is the name of the listener and of the upstream that the flags
// make.
const DefaultName = "default"

// Config is a whole, valid configuration: every name it refers to exists and
// every default has been filled in. It is never changed after it was loaded.
type Config struct {
	Global    Global
	Listeners []Listener // sorted by name
	Upstreams []Upstream // sorted by name
}

// Global holds the settings of the process itself.
type Global struct {
	ControlSocket  string // path of the Unix socket that status and its like ask
	HandoverSocket string // path of the Unix socket that a replacement asks
	Keep           Keep
	DrainTimeout   Timeout
	OnTerm         OnTerm
	ExitIdle       time.Duration // 0 = never
	Metrics        *Address      // of TCP; nil = off
	LogLevel       LogLevel
	AccessLog      bool
}

// Listener is one [listener.NAME] table.
type Listener struct {
	Name           string
	Listen         []Address // empty = only from a socket unit of that name
	Upstream       string
	AcceptProxy    bool           // read a PROXY v1/v2 header from clients in Trusted
	Trusted        []netip.Prefix // networks whose PROXY header is believed
	MaxConnections int            // 0 = no limit
	IdleTimeout    time.Duration  // 0 = never
}

// TakesAny reports whether this listener may have every socket handed to the
// process that no other listener names or has the address of. That is the
// listener "default" without an address, as `serve --upstream ADDRESS` makes it
// under a socket unit whose name nobody has to repeat.
func (l Listener) TakesAny() bool {
	return l.Name == DefaultName && len(l.Listen) == 0
}

// Upstream is one [upstream.NAME] table.
type Upstream struct {
	Name           string
	Servers        []Address // at least one
	Balance        Balance
	ConnectTimeout time.Duration // of one attempt; > 0
	ConnectRetry   time.Duration // how long a client waits for a backend that is not there; 0 = one round
	SendProxy      SendProxy
	Health         *Health // nil = no active checks
}

// Equal reports whether both are the same upstream with the same settings, down
// to the order of the servers.
func (u Upstream) Equal(v Upstream) bool {
	return reflect.DeepEqual(u, v) // sees through Health, and every field to come
}

// Health says how the servers of an upstream are probed.
type Health struct {
	Interval, Timeout time.Duration // > 0
	Rise, Fall        int           // consecutive results that change the state; >= 1
}

// Keep says what outlives the process.
type Keep string

// The values of Keep.
const (
	KeepConnections Keep = "connections"
	KeepListeners   Keep = "listeners"
)

// OnTerm says what SIGTERM means.
type OnTerm string

// The values of OnTerm.
const (
	OnTermAuto  OnTerm = "auto"
	OnTermKeep  OnTerm = "keep"
	OnTermDrain OnTerm = "drain"
)

// Balance names a way to choose among the servers of an upstream.
type Balance string

// The values of Balance.
const (
	RoundRobin       Balance = "round_robin"
	LeastConnections Balance = "least_connections"
	Random2          Balance = "random2"
	SourceHash       Balance = "source_hash"
)

// SendProxy is the version of the PROXY header sent to an upstream.
type SendProxy string

// The values of SendProxy.
const (
	SendProxyOff SendProxy = ""
	SendProxyV1  SendProxy = "v1"
	SendProxyV2  SendProxy = "v2"
)

// LogLevel is the least severe level that is logged.
type LogLevel string

// The values of LogLevel.
const (
	LogDebug LogLevel = "debug"
	LogInfo  LogLevel = "info"
	LogWarn  LogLevel = "warn"
	LogError LogLevel = "error"
)

// Timeout is a duration that may also be without limit.
type Timeout struct {
	Duration time.Duration
	Never    bool // no limit; Duration is 0
}

// Address is where a listener listens or a server is reached. For "tcp" and "udp"
// Host and Port count, for "unix" Path does. It is comparable: equal places are equal
// values, since [ParseAddress] keeps one spelling of each.
type Address struct {
	Network string // "tcp", "udp" (listeners only) or "unix"
	Host    string // literal address, or DNS name (servers only); "" = every address of this host (listeners only)
	Port    uint16 // 0 = the kernel chooses (listeners only)
	Path    string // absolute; "@name" = abstract
}

// String is the address as it stands in a config file, for example
// "tcp://127.0.0.1:6380", "tcp://[::1]:80" or "unix:///run/x.sock".
func (a Address) String() string {
	if a.Network == "unix" {
		return "unix://" + a.Path
	}
	return a.Network + "://" + net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}
