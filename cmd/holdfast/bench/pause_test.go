package bench

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// liveStreams are those of all connections that are busy, and see the pause.
const liveStreams = 10

// ends are the ways in which a process gives way to the next one.
var ends = []struct {
	name string
	end  func(b *testing.B, h *testbed.Holdfast)
}{
	{"restart", func(b *testing.B, h *testbed.Holdfast) { signal(b, h, unix.SIGTERM) }},
	{"kill", func(b *testing.B, h *testbed.Holdfast) { signal(b, h, unix.SIGKILL) }},
	{"upgrade", func(b *testing.B, h *testbed.Holdfast) {
		testbed.Run(b, testbed.Program{Path: testbed.Binary, Args: []string{"upgrade", "--control-socket", h.Control}})
	}},
}

func signal(b *testing.B, h *testbed.Holdfast, s unix.Signal) {
	if err := unix.Kill(h.Status(b).PID, s); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPause measures for how long live streams stand still when one process gives
// way to the next, with so many connections in all. After a restart and a kill the keeper
// waits for 100 ms, which are part of it. Each process is the first of its keeper, which
// would wait longer for the next.
func BenchmarkPause(b *testing.B) {
	for _, e := range ends {
		for _, connections := range []int{10, 1000, 5000} {
			b.Run(fmt.Sprintf("%s/%d", e.name, connections), func(b *testing.B) {
				var pauses []float64
				for b.Loop() {
					for range *rounds {
						pauses = append(pauses, pausesAt(b, e.end, connections)...)
					}
				}
				slices.Sort(pauses)
				b.ReportMetric(quantile(pauses, 0.5), "p50-ms")
				b.ReportMetric(quantile(pauses, 0.99), "p99-ms")
				b.ReportMetric(pauses[len(pauses)-1], "max-ms")
				b.ReportMetric(0, "ns/op") // the time of the whole says nothing
			})
		}
	}
}

// quantile is that of a sorted list.
func quantile(sorted []float64, q float64) float64 {
	return sorted[int(math.Ceil(q*float64(len(sorted))))-1]
}

// pausesAt is the longest exchange of each live stream, in milliseconds.
func pausesAt(b *testing.B, end func(*testing.B, *testbed.Holdfast), connections int) []float64 {
	s, server := newStageWithout(b)
	h := startKept(b, "connections", s.listen, server)
	s.proxy = h.Process // the keeper
	defer s.clear()
	if idle := connections - liveStreams; idle > 0 {
		s.work(b, job{Connections: idle, AtOnce: 50, Exchanges: 1, Answer: 128, Hold: true})
	}
	over := make(chan struct{})
	var streams sync.WaitGroup
	longest, failed := make([]time.Duration, liveStreams), make([]error, liveStreams)
	for i := range liveStreams {
		conn, err := testbed.Dial(s.listen)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		streams.Go(func() { longest[i], failed[i] = exchangeUntil(over, conn) })
	}
	former := h.Status(b).PID
	testbed.Eventually(b, time.Minute, "all are kept", func() bool { return h.Status(b).Connections.Kept >= int64(connections) })
	end(b, h)
	testbed.Eventually(b, time.Minute, "the next process has all of them", func() bool {
		said, err := exec.Command(testbed.Binary, "status", "--json", "--control-socket", h.Control).Output()
		var now status.Status
		return err == nil && json.Unmarshal(said, &now) == nil && now.PID != former && now.Connections.Active >= int64(connections)
	})
	time.Sleep(100 * time.Millisecond) // for the answers to the last exchanges
	close(over)
	streams.Wait()
	var pauses []float64
	for i, d := range longest {
		if failed[i] != nil {
			b.Fatal(failed[i])
		}
		pauses = append(pauses, micros(d)/1000)
	}
	return pauses
}

// exchangeUntil makes one exchange after the other, and returns how long the longest took.
func exchangeUntil(over <-chan struct{}, conn net.Conn) (longest time.Duration, err error) {
	const answer = 128
	var request [requestSize]byte
	binary.NativeEndian.PutUint64(request[:], answer)
	for {
		began := time.Now()
		if _, err := conn.Write(request[:]); err != nil {
			return longest, err
		}
		if _, err := io.ReadFull(conn, make([]byte, answer)); err != nil {
			return longest, err
		}
		longest = max(longest, time.Since(began))
		select {
		case <-over:
			return longest, nil
		case <-time.After(time.Millisecond):
		}
	}
}
