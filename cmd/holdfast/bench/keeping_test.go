package bench

import "testing"

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
	measure := func(p peer) float64 {
		s := newStage(b, p)
		defer s.clear()
		return micros(s.cpu(b, work)) / float64(units)
	}
	var kept, not, ratios []float64
	for b.Loop() {
		for range *rounds {
			k, u := measure(holdfast), measure(unkept)
			kept, not, ratios = append(kept, k), append(not, u), append(ratios, k/u)
		}
	}
	b.Logf("CPU of a %s: kept %.2f µs, not kept %.2f µs, ratios %.3f", what, kept, not, ratios)
	b.ReportMetric(median(kept), "kept-µs")
	b.ReportMetric(median(not), "unkept-µs")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(0, "ns/op") // the time of the whole says nothing
	if median(ratios) > 1.15 {
		b.Errorf("a %s that is kept costs %.2f of one that is not", what, median(ratios))
	}
}
