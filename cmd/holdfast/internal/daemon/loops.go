package daemon

import "runtime"

// spareProcs is by how many goroutine processors (GOMAXPROCS) there are more than
// event loops. While every one of them belongs to a waiting loop, the runtime's
// monitor takes it away after 20 µs, gives it back at the next event, and for that
// never sleeps: a tenth of the CPU of a busy proxy. With one left over it waits for
// 10 ms, and log, control socket and probes have one to run on.
const spareProcs = 1

// spreadLoops makes room for the event loops and the rest, and returns how many
// loops there are to be: one a core, fewer where the CPU quota of a cgroup or
// $GOMAXPROCS allows fewer, which the runtime has looked up.
func spreadLoops() int {
	loops := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(loops + spareProcs)
	return loops
}
