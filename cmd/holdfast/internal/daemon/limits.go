package daemon

import (
	"log/slog"
	"math"
	"runtime"

	"golang.org/x/sys/unix"
)

// spareProcs is by how many goroutine processors (GOMAXPROCS) there are more than
// event loops. While every one of them belongs to a waiting loop, the runtime's
// monitor takes it away after 20 µs, gives it back at the next event, and for that
// never sleeps: a tenth of the CPU of a busy proxy. With one left over it waits for
// 10 ms, and log, control socket and probes have one to run on.
const spareProcs = 1

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

// spreadLoops makes room for the event loops, one a core, and the rest. It
// returns how many loops there are to be.
func spreadLoops() int {
	loops := runtime.NumCPU()
	runtime.GOMAXPROCS(loops + spareProcs)
	return loops
}
