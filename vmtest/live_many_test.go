package vmtest_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// An emulated machine takes up to a minute for this many.
func TestProcess1StaysQuickWithManyConnectionsInItsStore(t *testing.T) {
	connections := 10_000
	if os.Getenv("VMTEST_DRIVER") == "nspawn" {
		connections = 3000 // the host's limit of open files is the guest's
	}
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp("tcp://127.0.0.1:8080", "tcp://127.0.0.2:8080"))
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		empty := answerTime(t, g)
		began := time.Now()
		load := g.StartLoad(vmtest.Load{Streams: -1, Callers: -1, Idle: connections / 2, Patience: 4 * time.Minute}, "tcp://127.0.0.1:8080", "tcp://127.0.0.2:8080")
		awaitAllKept(t, g, connections)
		full := answerTime(t, g)
		t.Logf("%d connections in %v; systemctl is-active takes %v with none and %v with them, which are %d descriptors",
			connections, time.Since(began).Round(time.Second), empty, full, stored(t, g))
		assert.Less(t, full, 2*empty+20*time.Millisecond)
		restart(g)
		awaitAllKept(t, g, connections)
		killAndAwait(g, 1)
		awaitAllKept(t, g, connections)
		for _, entry := range g.Journal(service, "LOST=0") {
			t.Log(entry["MESSAGE"])
		}
		assertNoneLost(t, load.Stop())
	})
}

// answerTime is for how long process 1 is asked about the service, the median of some.
func answerTime(t *testing.T, g *vmtest.Guest) time.Duration {
	t.Helper()
	const script = `for i in $(seq 15); do began=$(date +%s%N); systemctl is-active --quiet holdfast; echo $(($(date +%s%N) - began)); done`
	var times []time.Duration
	for _, word := range strings.Fields(g.Run("sh", "-c", script)) {
		n, err := strconv.Atoi(word)
		require.NoError(t, err)
		times = append(times, time.Duration(n))
	}
	slices.Sort(times)
	return times[len(times)/2].Round(100 * time.Microsecond)
}
