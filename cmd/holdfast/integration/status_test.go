package integration

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// TestStatusJSONIsAContract reads the output as a stranger's program would, by
// the documented names alone.
func TestStatusJSONIsAContract(t *testing.T) {
	server := testbed.TCP(t)
	listen(t, server, echo)
	route := testbed.Route{
		Name:    "echo",
		Listen:  []string{testbed.TCP(t), "unix://" + filepath.Join(testbed.Dir(t), "listen.sock")},
		Servers: []string{server},
	}
	holdfast := testbed.StartHoldfast(t, testbed.Config{Routes: []testbed.Route{route}})
	for range 4 {
		conn := dial(t, route.Listen[0])
		requireEcho(t, conn, "gone\n")
		require.NoError(t, conn.Close())
	}
	requireEcho(t, dial(t, route.Listen[0]), "stays\n")
	requireEcho(t, dial(t, route.Listen[0]), "stays\n")
	requireEcho(t, dial(t, route.Listen[1]), "stays\n")

	var got struct {
		Version     string            `json:"version"`
		PID         int               `json:"pid"`
		Generation  int               `json:"generation"`
		State       string            `json:"state"`
		Keep        string            `json:"keep"`
		Holder      string            `json:"holder"`
		StartedAt   string            `json:"started_at"`
		Listeners   listeners         `json:"listeners"`
		Upstreams   []upstream        `json:"upstreams"`
		Connections map[string]int64  `json:"connections"`
		Handover    map[string]string `json:"handover"`
	}
	testbed.Eventually(t, patience, "four of seven have left", func() bool {
		require.NoError(t, json.Unmarshal(holdfast.StatusJSON(t), &got))
		return got.Connections["active"] == 3
	})
	assert.NotEmpty(t, got.Version)
	assert.Equal(t, holdfast.Pid(), got.PID)
	assert.Equal(t, 1, got.Generation)
	assert.Equal(t, "running", got.State)
	assert.Equal(t, "connections", got.Keep)
	assert.Equal(t, "none", got.Holder)
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`, got.StartedAt)
	assert.Subset(t, got.Connections, map[string]int64{
		"accepted": 7, "restored": 0, "failed": 0,
		"bytes_in": 4*5 + 3*6, "bytes_out": 4*5 + 3*6,
	})
	assert.Equal(t, map[string]string{"last": "", "last_error": ""}, got.Handover)

	assert.Empty(t, got.Listeners.LastError)
	assert.ElementsMatch(t, []socket{
		{Socket: "tcp " + testbed.HostPort(route.Listen[0]), Names: []string{"echo"}, State: "active", Generations: []int{1}, Origin: "bind", Connections: 2, Accepted: 6},
		{Socket: "unix " + testbed.HostPort(route.Listen[1]), Names: []string{"echo"}, State: "active", Generations: []int{1}, Origin: "bind", Connections: 1, Accepted: 1},
	}, got.Listeners.Sockets)
	assert.Equal(t, []upstream{{Name: "echo", Servers: []backend{{Address: server, Healthy: true, Connections: 3}}}}, got.Upstreams)
}

type (
	listeners struct {
		LastError string   `json:"last_error"`
		Sockets   []socket `json:"sockets"`
	}
	socket struct {
		Socket      string   `json:"socket"`
		Names       []string `json:"names"`
		State       string   `json:"state"`
		Generations []int    `json:"generations"`
		Origin      string   `json:"origin"`
		Connections int      `json:"connections"`
		Accepted    int      `json:"accepted"`
	}
	upstream struct {
		Name    string    `json:"name"`
		Servers []backend `json:"servers"`
	}
	backend struct {
		Address     string `json:"address"`
		Healthy     bool   `json:"healthy"`
		Connections int    `json:"connections"`
	}
)

func TestStatusOfNobodySaysSo(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "control.sock")
	out, err := exec.Command(testbed.Binary, "status", "--control-socket", nowhere).CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 3, exit.ExitCode(), "LSB: not running")
	assert.Contains(t, string(out), nowhere)
}
