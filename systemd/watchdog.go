package systemd

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"time"
)

// WatchdogFromEnv says how often the manager wants to hear Watchdog at least: it
// takes a service for hung, and ends it, that has said nothing for so long. Half of
// that is the customary rhythm. 0 means that the manager does not watch.
//
// It reads $WATCHDOG_USEC and $WATCHDOG_PID as sd_watchdog_enabled(3) does, and
// unsets them: they are not for children. What it cannot read is an error, and 0.
func WatchdogFromEnv() (time.Duration, error) {
	usec, pid := os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	_ = os.Unsetenv("WATCHDOG_USEC") // fails for malformed names only
	_ = os.Unsetenv("WATCHDOG_PID")
	return parseWatchdog(usec, pid, os.Getpid())
}

// parseWatchdog takes the values of both variables, "" where one is not set, and
// the number of this process.
func parseWatchdog(usec, pid string, self int) (time.Duration, error) {
	if usec == "" {
		return 0, nil
	}
	interval, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || interval <= 0 || interval > math.MaxInt64/int64(time.Microsecond) {
		return 0, fmt.Errorf("WATCHDOG_USEC=%.100q is not an interval in microseconds", usec)
	}
	if pid != "" {
		watched, err := strconv.ParseInt(pid, 10, 32)
		if err != nil || watched <= 0 {
			return 0, fmt.Errorf("WATCHDOG_PID=%.100q is not a process", pid)
		}
		if int(watched) != self {
			return 0, nil
		}
	}
	return time.Duration(interval) * time.Microsecond, nil
}

// Watchdog says that the service is alive and well. It is to be called only by who
// knows that: a timer of its own proves nothing.
func (n *Notifier) Watchdog() error {
	return n.Send("WATCHDOG=1")
}
