package bench

import (
	"flag"
	"testing"
	"time"
)

var (
	rounds = flag.Int("rounds", 5, "measure each proxy so many `times`")
	scale  = flag.Float64("scale", 1, "multiply the work of each measurement by this `factor`")
)

// The benchmarks run one after the other; each prints its medians as metrics and
// adds a row to the table.

func BenchmarkMemoryOfIdleConnection(b *testing.B) {
	const connections = 9000
	peers := []peer{holdfast, unkept, haproxy, nginx} // socket-proxyd needs six descriptors for each
	compare(b, "idle connection", "KiB", peers, func(b *testing.B, s *stage) float64 {
		s.work(b, job{Connections: 100, AtOnce: 10, Exchanges: 1, Answer: 128})
		empty := s.proxy.Memory(b)
		s.work(b, job{Connections: connections, AtOnce: 100, Exchanges: 1, Answer: 128, Hold: true})
		return float64(s.memory(b)-empty) / connections / 1024
	})
}

func BenchmarkRequest(b *testing.B) {
	requests := scaled(300_000)
	compare(b, "request, 50 connections", "µs", everyPeer, func(b *testing.B, s *stage) float64 {
		return micros(s.cpu(b, job{Connections: 50, AtOnce: 50, Exchanges: requests / 50, Answer: 128})) / float64(requests)
	})
}

func BenchmarkPingPong(b *testing.B) {
	requests := scaled(150_000)
	compare(b, "request, 1 connection", "µs", everyPeer, func(b *testing.B, s *stage) float64 {
		return micros(s.cpu(b, job{Connections: 1, AtOnce: 1, Exchanges: requests, Answer: 128})) / float64(requests)
	})
}

func BenchmarkConnection(b *testing.B) {
	connections := scaled(50_000)
	compare(b, "connection", "µs", everyPeer, func(b *testing.B, s *stage) float64 {
		return micros(s.cpu(b, job{Connections: connections, AtOnce: 50, Exchanges: 1, Answer: 128})) / float64(connections)
	})
}

func BenchmarkBulk(b *testing.B) {
	const streams = 4
	gigabytes := max(1, scaled(12)/streams) * streams
	peers := []peer{holdfast, unkept, haproxy, haproxySplice, nginx, socketProxyd}
	compare(b, "gigabyte", "ms", peers, func(b *testing.B, s *stage) float64 {
		each := uint64(gigabytes/streams) * 1e9
		return micros(s.cpu(b, job{Connections: streams, AtOnce: streams, Exchanges: 1, Answer: each})) / 1000 / float64(gigabytes)
	})
}

var everyPeer = []peer{holdfast, unkept, haproxy, nginx, socketProxyd}

// compare lets the peers take turns and reports the median of each.
func compare(b *testing.B, figure, unit string, peers []peer, measure func(*testing.B, *stage) float64) {
	values := map[string][]float64{}
	for b.Loop() {
		for range *rounds {
			for _, p := range peers {
				s := newStage(b, p)
				values[p.name] = append(values[p.name], measure(b, s))
				s.clear()
			}
		}
	}
	r := row{figure, unit, map[string]float64{}}
	for _, p := range peers {
		r.median[p.name] = median(values[p.name])
		b.ReportMetric(r.median[p.name], p.name+"-"+unit)
		b.Logf("%-15s %.2f %s", p.name, values[p.name], unit)
	}
	b.ReportMetric(r.ratio(), "ratio")
	b.ReportMetric(0, "ns/op") // the time of the whole says nothing
	results = append(results, r)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func scaled(work int) int { return max(1, int(float64(work)**scale)) }
