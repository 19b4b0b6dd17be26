package vmtest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// Two listeners in turn are in the configuration, and the service is killed at any
// moment while one replaces the other.
func TestAKillInAReloadLeavesNothingHalfDone(t *testing.T) {
	const kills = 20
	turns := []string{"tcp://127.0.0.1:8081", "tcp://127.0.0.1:8082"}
	const begin = "if [ $1 = HUP ]; then systemctl kill --signal=HUP --kill-who=main holdfast; else systemctl reload --no-block holdfast; fi\n"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Second, "web "+turns[0]))
		g.DropIn(service, "[Service]\nRestartSec=10ms\nRestartSteps=0\n")
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		load := g.StartLoad(vmtest.Load{Streams: -1}, stays, staysPath)
		for i := range kills {
			goes, comes := turns[i%2], turns[(i+1)%2]
			g.Write(vmtest.ConfigFile, staying(time.Second, "web "+comes))
			how := []string{"HUP", "reload"}[i/2%2]
			before := rand.N(time.Duration(1+i%4) * 100 * time.Millisecond)
			g.Run("sh", "-c", begin+"sleep $2\nsystemctl kill --signal=KILL --kill-who=main holdfast", "sh", how, fmt.Sprint(before.Seconds()))
			moment := fmt.Sprintf("kill %d, %v after %s", i+1, before, how)
			awaitServing(g)

			assert.Empty(t, g.Call(comes), moment)
			g.Await("nobody listens on "+goes, func() bool { return strings.Contains(g.Call(goes), "refused") })
			s := g.Status()
			assert.Equal(t, i+2, s.Generation, moment)
			assert.Empty(t, s.Listeners.LastError, moment)
			assertStored(t, g, 3)
		}
		r := load.Stop()
		assert.Zero(t, r.New.Refused)
		assert.Zero(t, r.New.Timeout)
		assert.LessOrEqual(t, r.New.Bad(), 4*kills)
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
