package integration

import (
	"bufio"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// acceptedOf is what the metrics say of each socket.
func acceptedOf(t *testing.T, metrics string) map[string]int {
	t.Helper()
	response, err := http.Get("http://" + testbed.HostPort(metrics) + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	found := map[string]int{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		series, value, _ := strings.Cut(lines.Text(), "} ")
		if !strings.HasPrefix(series, "holdfast_listener_accepted_total{") {
			continue
		}
		_, socket, _ := strings.Cut(series, `socket="`)
		n, err := strconv.Atoi(value)
		require.NoError(t, err)
		found[strings.TrimSuffix(socket, `"`)] = n
	}
	return found
}

func TestTheCountsOfSocketsGoOnOverKillsRestartsAndUpgrades(t *testing.T) {
	server, metrics := testbed.TCP(t), testbed.TCP(t)
	listen(t, server, echo)
	route := testbed.Route{
		Name:    "echo",
		Listen:  []string{testbed.TCP(t), "unix://" + filepath.Join(testbed.Dir(t), "listen.sock")},
		Servers: []string{server},
	}
	holdfast := underKeeper(t, testbed.Config{Global: "metrics = '" + metrics + "'", Routes: []testbed.Route{route}})

	want := map[string]int{}
	clients := func() {
		for i, address := range route.Listen {
			for range i + 2 {
				conn := dial(t, address)
				requireEcho(t, conn, "counts\n")
				require.NoError(t, conn.Close())
				want[strings.Replace(address, "://", " ", 1)]++
			}
		}
	}
	accepted := func() map[string]int {
		found := map[string]int{}
		for _, s := range holdfast.Status(t).Listeners.Sockets {
			found[s.Socket] = int(s.Accepted)
		}
		return found
	}
	pid := serving(t, holdfast, 0)
	for _, end := range []func() int{
		func() int { return replaced(t, holdfast, pid, unix.SIGKILL) },
		func() int { return replaced(t, holdfast, pid, unix.SIGTERM) },
		func() int { return upgradeKept(t, holdfast) },
		func() int { return replaced(t, holdfast, pid, unix.SIGKILL) },
	} {
		clients()
		assert.Equal(t, want, accepted())
		pid = end()
		assert.Equal(t, want, accepted())
		assert.Equal(t, want, acceptedOf(t, metrics))
	}
}
