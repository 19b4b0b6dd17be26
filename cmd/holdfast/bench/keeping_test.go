package bench

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// newKeptStage is a stage whose proxy runs under a keeper, with a setting of keep.
func newKeptStage(b *testing.B, keep string) (*stage, *testbed.Holdfast) {
	server, listen := testbed.TCP(b), testbed.TCP(b)
	s := &stage{server: startActor(b, serverRole), load: startActor(b, loadRole), listen: listen}
	s.server.tell(b, server)
	h := testbed.StartHoldfastUnder(b, testbed.Config{
		Global: "drain_timeout = \"0\"\nkeep = \"" + keep + "\"",
		Routes: []testbed.Route{{Name: "bench", Listen: []string{listen}, Servers: []string{server}}},
	}, testbed.Binary, "keep", "--")
	s.proxy = h.Process // the keeper
	return s, h
}

// BenchmarkKeepingRequest and BenchmarkKeepingConnection compare the CPU time of
// instances that keep connections and that do not, in turns.
func BenchmarkKeepingRequest(b *testing.B) {
	requests := scaled(200_000)
	compareKeeping(b, "request", requests, job{Connections: 50, AtOnce: 50, Exchanges: requests / 50, Answer: 128})
}

func BenchmarkKeepingConnection(b *testing.B) {
	connections := scaled(30_000)
	compareKeeping(b, "connection", connections, job{Connections: connections, AtOnce: 50, Exchanges: 1, Answer: 128})
}

func compareKeeping(b *testing.B, what string, units int, work job) {
	measure := func(keep string) float64 {
		s, h := newKeptStage(b, keep)
		defer s.clear()
		pid := h.Status(b).PID
		warm := work
		warm.Connections = max(1, work.Connections/20)
		s.work(b, warm)
		before := cpuOf(b, pid)
		s.work(b, work)
		return micros(cpuOf(b, pid)-before) / float64(units)
	}
	var kept, unkept, ratios []float64
	for b.Loop() {
		for range *rounds {
			k, u := measure("connections"), measure("listeners")
			kept, unkept, ratios = append(kept, k), append(unkept, u), append(ratios, k/u)
		}
	}
	b.Logf("CPU of a %s: kept %.2f µs, not kept %.2f µs, ratios %.3f", what, kept, unkept, ratios)
	b.ReportMetric(median(kept), "kept-µs")
	b.ReportMetric(median(unkept), "unkept-µs")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(0, "ns/op") // the time of the whole says nothing
	if median(ratios) > 1.15 {
		b.Errorf("a %s that is kept costs %.2f of one that is not", what, median(ratios))
	}
}

// cpuOf is the CPU time of one process. A service is not in the process group of its
// keeper.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	const clockSched = 2 // of clock_getcpuclockid(3)
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|clockSched), &ts); err != nil {
		b.Fatalf("CPU clock of %d: %v", pid, err)
	}
	return time.Duration(ts.Nano())
}
