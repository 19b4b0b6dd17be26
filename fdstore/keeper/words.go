package keeper

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/holdfast-proxy/holdfast/fdstore/internal/manager"
)

// mostQueued is more messages than the queue of a socket ever has,
// net.unix.max_dgram_qlen.
const mostQueued = 4096

// drain deals with everything that was sent until now. Who sends faster than that is
// not waited for.
func (k *keeper) drain() {
	for range mostQueued {
		if !k.receive() {
			return
		}
	}
}

// receive deals with one message, if there is one.
func (k *keeper) receive() (more bool) {
	m, err := k.notify.Receive()
	switch {
	case errors.Is(err, manager.ErrNone):
		return false
	case err != nil:
		k.complaints.Warn("notify message not understood", "pid", m.PID, "error", err.Error())
	case m.IsBarrier():
		m.Close() // which is the answer
	case !k.isKin(m.PID):
		m.Close()
		k.complaints.Warn("notify message of a process that is none of ours", "pid", m.PID)
	default:
		k.obey(m)
	}
	return true
}

// isKin tells whether a process may speak: the main process, what descends from it,
// and what descends from the keeper, which all orphans among them do.
func (k *keeper) isKin(pid int) bool {
	if k.main != nil {
		return descends(pid, k.main.pid, k.self)
	}
	return descends(pid, k.self)
}

// obey does what a message says, in the order in which systemd does.
func (k *keeper) obey(m manager.Message) {
	if value, ok := m.Value("MAINPID"); ok {
		k.setMain(value, m.PID)
	}
	// A process before the main one, which drains, has a state that is not the service's.
	if k.main != nil && descends(m.PID, k.main.pid) {
		k.setState(m)
	}
	if refused := k.store.Apply(m); refused > 0 {
		k.complaints.Warn("descriptors not kept: the store is full", "pid", m.PID, "count", refused, "max", k.store.Max())
	}
}

// setState notes what the main process says of itself, or one of its children for it.
func (k *keeper) setState(m manager.Message) {
	if m.Has("STOPPING=1") && m.PID == k.main.pid {
		// Not from a child: a replacement that fails to start stops, too.
		k.beginEnd("it says so")
	}
	if m.Has("READY=1") {
		k.ready()
		k.heard()
	}
	if m.Has("RELOADING=1") {
		k.log.Debug("reloading", "pid", m.PID)
	}
	if status, ok := m.Value("STATUS"); ok {
		k.log.Debug("status", "pid", m.PID, "status", status)
	}
	if value, ok := m.Value("EXTEND_TIMEOUT_USEC"); ok {
		if by, ok := parseMicroseconds(value); ok {
			k.extend(by)
		}
	}
	switch value, _ := m.Value("WATCHDOG"); {
	case value == "1":
		k.heard()
	case value == "trigger" && !k.ending:
		k.watchdog.due = time.Now() // it says itself that it is not well
	}
	if value, ok := m.Value("WATCHDOG_USEC"); ok {
		if interval, ok := parseMicroseconds(value); ok {
			k.watchdog.interval = interval
			k.watchdog.rest()
			k.heard()
		}
	}
}

// heard notes a sign of life, of a process that is to live.
func (k *keeper) heard() {
	if !k.ending {
		k.watchdog.heard(time.Now())
	}
}

// setMain makes a process the main one that the main one has started, or that has
// lost its parent since, or that the main one vouches for. The one before runs on for as
// long as it likes.
func (k *keeper) setMain(value string, sender int) {
	pid, err := strconv.Atoi(value)
	if err != nil || pid <= 0 {
		k.complaints.Warn("MAINPID is not a process", "value", value)
		return
	}
	if k.main != nil && pid == k.main.pid {
		return
	}
	p, err := openProcess(pid)
	if err != nil {
		k.complaints.Warn("MAINPID is not a process", "error", err.Error())
		return
	}
	// Looked up when the number cannot be given to another any more.
	if !k.isKin(pid) && !k.isVouchedFor(pid, sender) || pid == k.self || p.ended() {
		p.close()
		k.complaints.Warn("MAINPID is none of our processes", "pid", pid)
		return
	}
	if err := k.place.note(pid); err != nil {
		k.log.Error("the main process is not recorded", "pid", pid, "error", err.Error())
	}
	k.adopt(p)
	k.log.Info("another process is the main one", "pid", pid)
}

// parseMicroseconds takes what a Duration has room for.
func parseMicroseconds(value string) (time.Duration, bool) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n > math.MaxInt64/uint64(time.Microsecond) {
		return 0, false
	}
	return time.Duration(n) * time.Microsecond, true
}
