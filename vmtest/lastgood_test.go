package vmtest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

func TestARestartWithABrokenFileGoesOnWithTheLastGoodOne(t *testing.T) {
	const more = "tcp://127.0.0.1:8081"
	good := staying(time.Minute, "more "+more)
	broken := []struct{ config, reason string }{
		{"[listener", vmtest.ConfigFile + ":1:"},
		{staying(time.Second, "web "+taken), "listener web (tcp 127.0.0.1:9001): address already in use"},
	}
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Minute))
		g.StartEcho(app, taken)
		g.Run("systemctl", "start", service)
		reload(g, good)
		load := g.StartLoad(vmtest.Load{}, stays, staysPath, more)
		generation, kills := 2, 0
		generations := "[2]" // the streams stay in theirs
		for _, b := range broken {
			g.Write(vmtest.ConfigFile, b.config)
			for _, end := range []func(*vmtest.Guest){restart, kill} {
				end(g)
				awaitServing(g)
				s := assertSockets(t, g, generation, allWith("active store "+generations, stays, staysPath, more)...)
				assert.Contains(t, s.Listeners.LastError, b.reason)
				assertStored(t, g, 3)
			}
			assertLogged(t, g, "3", "configuration refused: "+b.reason)
			kills++
			reload(g, good)
			generation++
			generations = fmt.Sprint([]int{2, generation})
			assert.Empty(t, g.Status().Listeners.LastError)
		}
		assertOnlyAcceptedLost(t, load.Stop(), 6*kills)
	})
}

func TestAFirstStartWithABrokenFileSaysSoAndServesOnceItIsRepaired(t *testing.T) {
	const badConfig = "6"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install("[listener")
		g.StartEcho(app)
		assert.NotZero(t, g.Try("systemctl", "start", service).Code)
		g.AwaitUnit(service, "ExecMainStatus", badConfig)
		assertLogged(t, g, "3", vmtest.ConfigFile+":1:")
		g.Write(vmtest.ConfigFile, staying(time.Second))
		awaitServing(g)
		assertSockets(t, g, 1, allActive("bind", 1, stays, staysPath)...)
	})
}
