// Package status declares what a running instance says of itself. The JSON
// names are a contract with the programs that read `holdfast status --json`.
//
// It holds types: the engine fills them, the control socket carries them, metrics,
// the log and the command line show them.
package status

import "time"

// Status is a snapshot of one running instance.
type Status struct {
	Version     string      `json:"version"`
	PID         int         `json:"pid"`
	Generation  uint64      `json:"generation"`
	State       State       `json:"state"`
	Keep        string      `json:"keep"`
	Holder      string      `json:"holder"` // who keeps descriptors when this process is gone: HolderSystemd, HolderKeeper or HolderNone
	StartedAt   time.Time   `json:"started_at"`
	Listeners   Listeners   `json:"listeners"`
	Upstreams   []Upstream  `json:"upstreams"`
	Connections Connections `json:"connections"`
	Handover    Handover    `json:"handover"`
}

// The values of Holder.
const (
	HolderNone    = "none"    // nobody keeps anything
	HolderSystemd = "systemd" // the service manager's store
	HolderKeeper  = "keeper"  // holdfast keep
)

// State is the phase of life of an instance.
type State string

// The values of State.
const (
	Starting State = "starting"
	Running  State = "running"
	Draining State = "draining" // no longer accepting, connections being finished
)

// Listeners is every listening socket and the reason of the last failed change.
type Listeners struct {
	LastError string   `json:"last_error"` // "" after a change that succeeded
	Sockets   []Socket `json:"sockets"`
}

// Socket is one listening socket of the kernel.
type Socket struct {
	Socket      string      `json:"socket"` // transport and bound address, "tcp 127.0.0.1:8080"
	Names       []string    `json:"names"`
	State       SocketState `json:"state"`
	Generations []uint64    `json:"generations"`
	Origin      string      `json:"origin"` // "systemd", "store", "handover", "pidfd" or "bind"
	Connections int64       `json:"connections"`
	Accepted    int64       `json:"accepted"` // by this process and those before it
	Paused      bool        `json:"paused"`   // not accepting for now: a limit of connections or descriptors is reached
}

// SocketState says whether the current generation uses a socket.
type SocketState string

// The values of SocketState.
const (
	SocketActive   SocketState = "active"
	SocketDraining SocketState = "draining"
)

// Upstream is one upstream with its servers.
type Upstream struct {
	Name    string   `json:"name"`
	Servers []Server `json:"servers"`
}

// Server is one configured server of an upstream.
type Server struct {
	Address     string `json:"address"`
	Healthy     bool   `json:"healthy"`
	Connections int64  `json:"connections"` // open or being dialled
	LastError   string `json:"last_error"`  // of its last failed dial, probe or look-up; "" when the last one worked
}

// Connections counts over all listeners.
type Connections struct {
	Active   int64 `json:"active"`
	Accepted int64 `json:"accepted"`
	Restored int64 `json:"restored"`  // left by another process, and gone on with
	Failed   int64 `json:"failed"`    // reset before a server was reached: none in time, a bad PROXY header, no memory or descriptor
	BytesIn  int64 `json:"bytes_in"`  // from clients
	BytesOut int64 `json:"bytes_out"` // to clients
	Unlogged int64 `json:"unlogged"`  // connection lines dropped because the log could not keep up

	Kept         int64   `json:"kept"`             // of the active ones: they outlive this process
	Unkept       int64   `json:"unkept"`           // of the active ones: they should, and there was no room for them
	Lost         int64   `json:"lost"`             // left by another process, and reset, as they could not go on
	RestorePause float64 `json:"restore_pause_ms"` // for how long those of another process stood still, since this one began or the other let go, in milliseconds; 0 = there were none
}

// Handover tells of the last transfer between two instances.
type Handover struct {
	Last      string `json:"last"`       // from whom this process took over, "process 12 (holdfast)"; "" = from nobody
	LastError string `json:"last_error"` // why the last upgrade failed; "" after one that did not
}

// Upgrade is how another process took over.
type Upgrade struct {
	PID    int `json:"pid"`    // of the process that serves now
	Former int `json:"former"` // of the one that did; it ends with its last connection
}

// Drain is what became of the connections that were to be drained.
type Drain struct {
	Connections int64 `json:"connections"` // that were there, and have ended
}

// Reload is what a change of the configuration did.
type Reload struct {
	Generation uint64   `json:"generation"` // in service now
	Changes    []Change `json:"changes"`
}

// Counts tells how many sockets became what, without what none did.
func (r Reload) Counts() []ChangeCount {
	var counts []ChangeCount
	for _, kind := range []ChangeKind{Kept, Bound, Taken, Drains, Closed} {
		c := ChangeCount{Kind: kind}
		for _, change := range r.Changes {
			if change.Change == kind {
				c.Sockets++
			}
		}
		if c.Sockets > 0 {
			counts = append(counts, c)
		}
	}
	return counts
}

// ChangeCount is how many sockets became one thing.
type ChangeCount struct {
	Kind    ChangeKind
	Sockets int
}

// Change is what became of one listening socket.
type Change struct {
	Socket string     `json:"socket"`
	Names  []string   `json:"names"`
	Origin string     `json:"origin"`
	Change ChangeKind `json:"change"`
}

// ChangeKind says what became of a socket.
type ChangeKind string

// The values of ChangeKind.
const (
	Kept   ChangeKind = "kept"     // it serves on, with the new settings
	Bound  ChangeKind = "bound"    // it is new
	Taken  ChangeKind = "taken"    // it was there already: a socket unit had passed it
	Drains ChangeKind = "draining" // no listener wants it: closed, but its connections go on
	Closed ChangeKind = "closed"   // no listener wants it, and it had no connection
)
