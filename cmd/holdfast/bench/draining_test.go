package bench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// BenchmarkAcceptBesideDraining compares how fast clients are served by an instance
// beside ten former ones, each with a connection that it still has, and by a fresh one.
// The sockets are open in all eleven: what wakes the former ones costs the new one.
func BenchmarkAcceptBesideDraining(b *testing.B) {
	const former = 10
	connections := scaled(20_000)
	fresh, beside := newStage(b, unkept), newUpgradedStage(b, former)
	rate := func(s *stage) float64 {
		began := time.Now()
		s.work(b, job{Connections: connections, AtOnce: 50, Exchanges: 1, Answer: 128})
		return float64(connections) / time.Since(began).Seconds()
	}
	rate(fresh)
	rate(beside)
	var alone, crowded, ratios []float64
	for b.Loop() {
		for range *rounds {
			a, c := rate(fresh), rate(beside)
			alone, crowded, ratios = append(alone, a), append(crowded, c), append(ratios, c/a)
		}
	}
	b.Logf("fresh %.0f, beside %d that drain %.0f connections a second", alone, former, crowded)
	b.ReportMetric(median(alone), "fresh-conns/s")
	b.ReportMetric(median(crowded), "beside-conns/s")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(0, "ns/op") // the time of the whole says nothing
	if median(ratios) < 0.8 {
		b.Errorf("a process beside %d that drain serves %.2f of the clients of one alone", former, median(ratios))
	}
	fresh.clear()
	beside.clear()
}

// newUpgradedStage is a stage whose proxy was upgraded so many times. Each process
// before the last one has a connection that does not end.
func newUpgradedStage(b *testing.B, upgrades int) *stage {
	s, server := newStageWithout(b)
	h := testbed.StartHoldfast(b, testbed.Config{
		Global: "drain_timeout = \"never\"\nkeep = \"listeners\"", // the connections stay with who accepted them
		Routes: []testbed.Route{{Name: "bench", Listen: []string{s.listen}, Servers: []string{server}}},
	})
	s.proxy = h.Process // leads the group of all of them
	var former []int
	for range upgrades {
		former = append(former, h.Status(b).PID)
		s.work(b, job{Connections: 1, AtOnce: 1, Exchanges: 1, Answer: 128, Hold: true})
		testbed.Run(b, testbed.Program{Path: testbed.Binary, Args: []string{"upgrade", "--control-socket", h.Control}})
	}
	for _, pid := range former {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		require.NoError(b, err)
		require.NotEmpty(b, open, "process %d does not drain any more", pid)
	}
	return s
}
