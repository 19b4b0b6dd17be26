package bench

import (
	"testing"
	"time"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// stage is a proxy with a server behind it and a load before it, all fresh.
type stage struct {
	proxy        *testbed.Process
	server, load *actor
	listen       string
}

func newStage(b *testing.B, p peer) *stage {
	s, server := newStageWithout(b)
	s.proxy = p.start(b, s.listen, server)
	testbed.Listening(b, s.listen)
	return s
}

// newStageWithout is a stage that has no proxy yet, with the server's address.
func newStageWithout(b *testing.B) (s *stage, server string) {
	server = testbed.TCP(b)
	s = &stage{server: startActor(b, serverRole), load: startActor(b, loadRole), listen: testbed.TCP(b)}
	s.server.tell(b, server)
	return s, server
}

func (s *stage) clear() {
	s.load.stop()
	s.proxy.Stop()
	s.server.stop()
}

// work lets the load do a job through the proxy.
func (s *stage) work(b *testing.B, j job) {
	j.Address = s.listen
	s.load.tell(b, j)
}

// cpu is the CPU time that the proxy spends on a job, after a twentieth of it to
// warm up.
func (s *stage) cpu(b *testing.B, j job) time.Duration {
	warm := j
	warm.Exchanges = max(1, j.Exchanges/20)
	if j.Exchanges == 1 {
		warm.Connections = max(1, j.Connections/20)
		warm.Answer = max(1, j.Answer/20)
	}
	s.work(b, warm)
	before := s.proxy.CPU(b)
	s.work(b, j)
	return s.proxy.CPU(b) - before
}

// memory is the proxy's, once it has given back what it used while it was busy.
func (s *stage) memory(b *testing.B) int64 {
	last := s.proxy.Memory(b)
	still := time.Now()
	testbed.Eventually(b, time.Minute, "memory is steady for a second", func() bool {
		if now := s.proxy.Memory(b); now != last {
			last, still = now, time.Now()
		}
		return time.Since(still) > time.Second
	})
	return last
}
