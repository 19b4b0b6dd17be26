package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// The first client that each process sent to the black hole would wait for a minute.
func TestNoClientWaitsForAServerThatTheProcessBeforeKnewToBeDown(t *testing.T) {
	good, hole := testbed.TCP(t), blackHole(t)
	listen(t, good, echo)
	route := testbed.Route{
		Name: "echo", Listen: []string{testbed.TCP(t)}, Servers: []string{hole, good},
		Upstream: "connect_timeout = '1m'\nhealth = { timeout = '2s', fall = 1 }",
	}
	holdfast := underKeeper(t, testbed.Config{Routes: []testbed.Route{route}})
	isDown := func() bool { return !holdfast.Status(t).Upstreams[0].Servers[0].Healthy }
	pid := serving(t, holdfast, 0)
	testbed.Eventually(t, patience, "the black hole is noticed", isDown)

	for _, end := range []struct {
		name string
		by   func()
	}{
		{"kill", func() { kill9(t, pid) }},
		{"restart", func() { require.NoError(t, unix.Kill(pid, unix.SIGTERM)) }},
		{"upgrade", func() { // the next process serves before it has what the former one keeps
			load := startLoad(t, route.Listen...)
			upgradeKept(t, holdfast)
			load.assertNoneLost(t)
		}},
	} {
		end.by()
		for range 4 { // in the queue, where nobody serves yet
			requireEcho(t, dial(t, route.Listen[0]), "served\n")
		}
		pid = serving(t, holdfast, pid)
		server := holdfast.Status(t).Upstreams[0].Servers[0]
		assert.False(t, server.Healthy, end.name)
		assert.Contains(t, server.LastError, "timed out", end.name)
	}
}
