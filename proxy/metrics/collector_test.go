package metrics

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// The file is what dashboards and alerts rest on: a change of it is a change of
// a contract.
func TestExpositionIsTheContract(t *testing.T) {
	golden, err := os.Open("testdata/exposition.txt")
	require.NoError(t, err)
	defer golden.Close()
	require.NoError(t, testutil.CollectAndCompare(collector{canned(sample())}, golden))
}

func TestNamesFollowPrometheus(t *testing.T) {
	problems, err := testutil.CollectAndLint(collector{canned(sample())})
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func TestRuntimeAndProcessAreShownToo(t *testing.T) {
	families, err := registry(canned(sample())).Gather()
	require.NoError(t, err)
	names := make(map[string]bool)
	for _, family := range families {
		names[family.GetName()] = true
	}
	for _, name := range []string{"holdfast_connections", "go_goroutines", "process_open_fds"} {
		assert.Contains(t, names, name)
	}
}

func TestScrapeBearsAnyStatus(t *testing.T) {
	twice := sample()
	twice.Listeners.Sockets = append(twice.Listeners.Sockets, twice.Listeners.Sockets...)
	twice.Upstreams = append(twice.Upstreams, twice.Upstreams...)
	bytes := sample()
	bytes.Version = "\xff"
	bytes.Listeners.Sockets[0].Socket = "unix /run/\xff.sock"
	bytes.Listeners.Sockets[1].Socket = "unix /run/\"\n\\.sock"
	bytes.Upstreams[0].Servers[0].Address = "unix:///run/\xff"

	for name, s := range map[string]status.Status{
		"nothing yet":                {},
		"one address twice":          twice,
		"paths that are no text":     bytes,
		"an unknown state":           {State: "dreaming"},
		"a socket without listeners": {Listeners: status.Listeners{Sockets: []status.Socket{{Socket: "tcp [::]:80"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := registry(canned(s)).Gather()
			assert.NoError(t, err)
		})
	}
}

func TestSeriesWithTheSameLabelsAreAddedUp(t *testing.T) {
	s := status.Status{
		Listeners: status.Listeners{Sockets: []status.Socket{
			{Socket: "tcp [::]:80", Names: []string{"web"}, State: status.SocketDraining, Connections: 1, Accepted: 10, Paused: true},
			{Socket: "tcp [::]:80", Names: []string{"web"}, State: status.SocketActive, Connections: 2, Accepted: 20},
		}},
		Upstreams: []status.Upstream{{Name: "app", Servers: []status.Server{
			{Address: "tcp://a:1", Connections: 3},
			{Address: "tcp://a:1", Connections: 4, Healthy: true},
		}}},
	}
	require.NoError(t, testutil.CollectAndCompare(collector{canned(s)}, strings.NewReader(`
# HELP holdfast_listener_accepted_total Client connections accepted on the socket.
# TYPE holdfast_listener_accepted_total counter
holdfast_listener_accepted_total{listener="web",socket="tcp [::]:80"} 30
# HELP holdfast_listener_draining Whether only connections of earlier configurations use the socket.
# TYPE holdfast_listener_draining gauge
holdfast_listener_draining{listener="web",socket="tcp [::]:80"} 0
# HELP holdfast_listener_paused Whether the socket does not accept for now because a limit is reached.
# TYPE holdfast_listener_paused gauge
holdfast_listener_paused{listener="web",socket="tcp [::]:80"} 0
# HELP holdfast_upstream_connections Connections to the server open or being dialled now.
# TYPE holdfast_upstream_connections gauge
holdfast_upstream_connections{server="tcp://a:1",upstream="app"} 7
# HELP holdfast_upstream_healthy Whether the server is given connections.
# TYPE holdfast_upstream_healthy gauge
holdfast_upstream_healthy{server="tcp://a:1",upstream="app"} 1
`),
		"holdfast_listener_accepted_total", "holdfast_listener_draining", "holdfast_listener_paused",
		"holdfast_upstream_connections", "holdfast_upstream_healthy"))
}
