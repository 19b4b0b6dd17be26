package upstream

import "time"

// penalty is how long an endpoint is tried last after a failed dial.
const penalty = time.Second

// Endpoint is one socket address of one server, as one [Pool] uses it. It lives
// as long as somebody refers to it, also after its server has moved to another
// address or left the configuration. It does not refer to its pool: a connection
// that never ends must not keep a whole generation in memory.
type Endpoint struct {
	record *record // shared by the endpoints that other generations have of this address
	limits limits
	slot   uint8  // in Tried
	seed   uint64 // for source_hash: the same in every process and after each restart

	target   target
	name     string
	sockaddr []byte
	label    string // begins each log line about the endpoint
	wake     signal // of its server
	changed  signal // of its pool
}

// Sockaddr is the address in the form of connect(2): a struct sockaddr_in,
// sockaddr_in6 or sockaddr_un. The caller must not change it.
func (e *Endpoint) Sockaddr() []byte { return e.sockaddr }

// Family is the address family: AF_INET, AF_INET6 or AF_UNIX.
func (e *Endpoint) Family() int { return e.target.family }

// String is the concrete address, for example "tcp 10.0.0.1:5432".
func (e *Endpoint) String() string { return e.name }

// Opened counts an attempt or connection that starts. Dials count too, so that
// least_connections sees the load that is on its way.
func (e *Endpoint) Opened() { e.record.connections.Add(1) }

// Closed counts the end of an attempt or connection that was Opened.
func (e *Endpoint) Closed() { e.record.connections.Add(-1) }

// Succeeded says that a dial worked.
func (e *Endpoint) Succeeded() {
	// Nearly always there is nothing to clear. A store would pull the cache
	// line away from the other threads.
	if e.record.penaltyEnd.Load() != 0 {
		e.record.penaltyEnd.Store(0)
	}
	e.passed()
}

// Failed says that a dial ended with err, which is not nil, at now on the
// caller's clock. For a second other endpoints are preferred. With health
// checks on it counts as a failed probe. A server name is looked up again soon,
// while the pool runs.
func (e *Endpoint) Failed(err error, now int64) {
	e.record.penaltyEnd.Store(now + int64(penalty))
	e.failed(err)
	e.wake.signal()
}

// passed records a dial or probe that worked.
func (e *Endpoint) passed() {
	if e.record.lastError.Load() != nil {
		e.record.lastError.Store(nil)
	}
	e.judge(true)
}

// failed records a dial or probe that did not work.
func (e *Endpoint) failed(err error) {
	text := reason(err)
	e.record.lastError.Store(&text)
	e.judge(false)
}

// judge gives one result to the health, if that is checked.
func (e *Endpoint) judge(ok bool) {
	if e.limits.off() {
		return
	}
	if news := e.record.health.record(ok, e.limits); news {
		e.changed.signal()
	}
}

// down is whether the health checks have failed; never without checks.
func (e *Endpoint) down() bool {
	return !e.limits.off() && e.record.health.down()
}

// lastErrorText is "" when the last dial or probe worked.
func (e *Endpoint) lastErrorText() string {
	if text := e.record.lastError.Load(); text != nil {
		return *text
	}
	return ""
}

// grade is how much an endpoint is wanted; lower is better.
type grade uint8

const (
	ready     grade = iota
	penalised       // failed a dial a moment ago
	down            // failed its health checks; still tried when there is nothing better
	noGrade         // worse than any
)

func (e *Endpoint) grade(now int64) grade {
	switch {
	case e.down():
		return down
	case now < e.record.penaltyEnd.Load():
		return penalised
	default:
		return ready
	}
}
