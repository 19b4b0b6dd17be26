package daemon

import (
	"log/slog"
	"math"

	"golang.org/x/sys/unix"
)

// raiseDescriptors raises the limit of open descriptors to what the process may
// have, and returns it.
func raiseDescriptors(log *slog.Logger) int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		log.Warn("cannot read the limit of open descriptors", "error", err.Error())
		return 1024
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		log.Warn("cannot raise the limit of open descriptors", "error", err.Error())
		_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	}
	return int(min(limit.Cur, math.MaxInt32))
}
