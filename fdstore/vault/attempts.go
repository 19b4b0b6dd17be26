package vault

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// leastTrying is for how long a vault is tried to be restored at least, however often that
// was in vain: a service that is started anew each 100 ms has soon been so often.
const leastTrying = 2 * time.Minute

// try counts an attempt to restore. It is an error when there were so many before it, none
// of them settled, and for long enough.
func (t *table) try(most int) error {
	now, n := bootTime(), t.uint32At(atUnsettled).Load()
	if n == 0 {
		t.uint64At(atTried).Store(uint64(now))
	}
	t.uint32At(atUnsettled).Store(n + 1)
	trying := now - time.Duration(t.uint64At(atTried).Load())
	if most < 0 || int64(n) < int64(most) || trying < leastTrying {
		return nil
	}
	return fmt.Errorf("%w: %d processes have died over restoring it, in %v", ErrUnreadable, n, trying.Round(time.Second))
}

// tried begins the count anew.
func (t *table) tried() { t.uint32At(atUnsettled).Store(0) }

// untry takes an attempt back that was left off in good order.
func (t *table) untry() {
	if n := t.uint32At(atUnsettled).Load(); n > 0 {
		t.uint32At(atUnsettled).Store(n - 1)
	}
}

// bootTime is the time since the host was started. A table does not outlive that.
func bootTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // it is there since Linux 2.6.39
	return time.Duration(ts.Nano())
}
