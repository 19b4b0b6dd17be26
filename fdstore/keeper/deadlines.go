package keeper

import (
	"time"

	"golang.org/x/sys/unix"
)

// nextDeadline is when checkDeadlines has something to do; the zero time is never.
func (k *keeper) nextDeadline() time.Time {
	var next time.Time
	for _, t := range []time.Time{k.restartAt, k.killAt, k.watchdog.due} {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

// checkDeadlines does what is due.
func (k *keeper) checkDeadlines(now time.Time) {
	switch {
	case k.over:
	case isDue(k.restartAt, now):
		k.restart()
	case isDue(k.killAt, now):
		k.kill()
	case isDue(k.watchdog.due, now):
		k.hung(now)
	}
}

func isDue(t, now time.Time) bool {
	return !t.IsZero() && !t.After(now)
}

// kill ends a main process that has not ended in its time, or all before it.
func (k *keeper) kill() {
	if k.main == nil {
		k.log.Warn("former main processes are killed: they did not end in time", "count", len(k.former))
		k.killAt = time.Time{}
		k.former.signal(unix.SIGKILL)
		return
	}
	k.log.Warn("killed: it did not end in time", "pid", k.main.pid)
	k.killAt = time.Time{}
	if err := k.main.signal(unix.SIGKILL); err != nil {
		k.log.Error("cannot kill the main process", "error", err.Error())
	}
}

// hung ends a main process that gives no sign of life, so that it leaves a core dump or
// a trace. What it has sent and nobody has read yet counts.
func (k *keeper) hung(now time.Time) {
	k.drain()
	if k.main == nil || !isDue(k.watchdog.due, now) {
		return
	}
	k.log.Error("hung: the watchdog was not told in time", "pid", k.main.pid)
	k.end(unix.SIGABRT)
}
