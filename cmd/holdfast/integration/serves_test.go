package integration

import (
	"maps"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// traffic is one kind of use: the routes it needs, and what goes through them.
// Its servers run before Holdfast does.
type traffic struct {
	name   string
	routes []testbed.Route
	drive  func(t *testing.T, holdfast *testbed.Holdfast)
}

func TestOneHoldfastServes(t *testing.T) {
	kinds := []traffic{
		redis(t), postgres(t), nginx(t), tlsSession(t), sshSession(t),
		bulk(t), halfClose(t), resets(t),
	}
	var cfg testbed.Config
	for _, k := range kinds {
		cfg.Routes = append(cfg.Routes, k.routes...)
	}
	for _, mode := range []struct {
		name   string
		origin string
		start  func(testing.TB, testbed.Config) *testbed.Holdfast
	}{
		{"with its own sockets", "bind", testbed.StartHoldfast},
		{"with sockets from systemd", "systemd", testbed.StartActivated},
	} {
		t.Run(mode.name, func(t *testing.T) {
			holdfast := mode.start(t, cfg)
			for _, s := range holdfast.Status(t).Listeners.Sockets {
				assert.Equal(t, mode.origin, s.Origin, "origin of %s", s.Socket)
			}
			before := descriptors(t, holdfast)
			for _, k := range kinds {
				t.Run(k.name, func(t *testing.T) { k.drive(t, holdfast) })
			}
			testbed.EventuallyEqual(t, patience, "live connections", 0, func() int64 {
				return holdfast.Status(t).Connections.Active
			})
			testbed.Eventually(t, 5*time.Second, "no descriptor has leaked", func() bool {
				return !leaked(t, before, descriptors(t, holdfast))
			})
		})
	}
}

// leaked compares two counts. The event loops, one per core, may each keep an
// unused socket of each family ready for the next connection.
func leaked(t testing.TB, before, after map[string]int) bool {
	spare := after["socket"] - before["socket"]
	t.Logf("descriptors before: %v, after: %v", before, after)
	rest := maps.Clone(after)
	rest["socket"] = before["socket"]
	return spare < 0 || spare > 3*runtime.NumCPU() || !maps.Equal(before, rest)
}

// descriptors counts what an instance has open, without the pipes and the segments of the
// vault: those are given up a minute later, so it is enough that they have a limit.
func descriptors(t testing.TB, h *testbed.Holdfast) map[string]int {
	t.Helper()
	open := h.Descriptors(t)
	assert.LessOrEqual(t, open["pipe"], 1000, "pipes")
	assert.LessOrEqual(t, open["seqpacket"], 100, "handover socket and vault")
	delete(open, "pipe")
	delete(open, "seqpacket")
	return open
}
