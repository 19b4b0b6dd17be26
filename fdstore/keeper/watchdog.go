package keeper

import "time"

// watchdog says when a process is taken for hung. It begins with the first sign of
// life, as only the process knows when it has started.
type watchdog struct {
	interval time.Duration // 0 = none
	due      time.Time     // zero = it has not begun
}

// heard notes a sign of life.
func (w *watchdog) heard(now time.Time) {
	if w.interval > 0 {
		w.due = now.Add(w.interval)
	}
}

// rest waits for the next sign of life to begin again.
func (w *watchdog) rest() {
	w.due = time.Time{}
}

// extend puts it off, if it has begun.
func (w *watchdog) extend(until time.Time) {
	w.due = later(w.due, until)
}

// later is a time that is put off until another one, if it is set.
func later(due, until time.Time) time.Time {
	if due.IsZero() || due.After(until) {
		return due
	}
	return until
}
