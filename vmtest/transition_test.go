package vmtest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// Two listeners in turn are in the configuration, and the process is killed at any
// moment while one replaces the other.
func TestAKillInAReloadLeavesNothingHalfDone(t *testing.T) {
	const kills, clients = 20, 4
	turns := []string{"tcp://127.0.0.1:8081", "tcp://127.0.0.1:8082"}
	begin := []string{"kill -HUP $1", "systemctl reload --no-block holdfast"}
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Second, "web "+turns[0]))
		g.DropIn(service, "[Service]\nRestartSec=10ms\nRestartSteps=0\n")
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		load := g.StartLoad(vmtest.Load{}, stays, staysPath)
		s := g.Status()
		for i := range kills {
			goes, comes := turns[i%2], turns[(i+1)%2]
			g.Write(vmtest.ConfigFile, staying(time.Second, "web "+comes))
			before := rand.N(time.Duration(1+i%4) * 100 * time.Millisecond)
			how := begin[i/2%2]
			g.Run("sh", "-c", how+"; sleep $2; kill -KILL $1", "sh", strconv.Itoa(s.PID), fmt.Sprint(before.Seconds()))
			awaitServing(g)
			moment := fmt.Sprintf("kill %d, %v after %s", i+1, before, how)
			var call string
			g.Await("nobody listens on "+goes, func() bool {
				call = g.Call(goes, comes)
				return strings.Contains(call, goes+": dial tcp "+goes[len("tcp://"):]+": connect: connection refused")
			})
			assert.NotContains(t, call, comes, moment)
			s = g.Status()
			assert.Equal(t, i+2, s.Generation, moment)
			assert.Empty(t, s.Listeners.LastError, moment)
			g.Await("the store is rid of "+goes, func() bool { return isStored(stored(t, g), 3) })
		}
		assertOnlyAcceptedLost(t, load.Stop(), clients*kills)
	})
}

func TestWhoWaitsAtARemovedListenerIsServedByTheNextProcess(t *testing.T) {
	const goes, path = "tcp://127.0.0.1:8081", "unix:///run/holdfast/web.sock"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Second, "web "+goes+" "+path))
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		g.Run("systemctl", "kill", "--signal=STOP", service)
		startCalls(g, slices.Concat(slices.Repeat([]string{goes}, 20), slices.Repeat([]string{path}, 20))...)
		awaitQueues(g, 2, 20)
		g.Write(vmtest.ConfigFile, staying(time.Second))
		kill(g)
		g.AwaitUnit("vmtest-calls.service", "ActiveState", "active")
		assertSockets(t, g, 2, "tcp 127.0.0.1:8080 active store [2]", "unix /run/holdfast/stays.sock active store [2]")
		assertRefused(t, g, goes, "")
		assertRefused(t, g, path, "")
		assertStored(t, g, 2)
	})
}
