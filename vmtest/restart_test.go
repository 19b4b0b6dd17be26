package vmtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

func TestRestartRefusesNobody(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToAppDraining(time.Minute))
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.socket")
		load := g.StartLoad(vmtest.Load{}, web)
		for range 10 {
			restart(g)
		}
		r := load.Stop()
		assertNoneLost(t, r)
		assert.Greater(t, r.New.OK, 5)
	})
}

// Streams do not end by themselves, so each restart takes all of drain_timeout, and
// new clients wait as long.
func TestWhereConnectionsAreNotKeptARestartDrains(t *testing.T) {
	const drain = 500 * time.Millisecond
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToAppDraining(drain, web))
		g.StartEcho(app)
		for _, setting := range []string{"KEEP=listeners", "ON_TERM=drain"} {
			g.DropIn(service, "[Service]\nEnvironment=HOLDFAST_GLOBAL_"+setting+"\n")
			g.Run("systemctl", "start", service)
			load := g.StartLoad(vmtest.Load{}, web)
			restart(g)
			restart(g)
			r := load.Stop()
			assert.Zero(t, r.New.Bad(), setting, r.Errors)
			assert.Equal(t, 2*4, r.Streams.Cut+r.Streams.Reset, "%s: %+v", setting, r.Streams)
			assert.Greater(t, r.NewGap, drain, setting)
			g.Run("systemctl", "stop", service)
			assert.Zero(t, stored(t, g), setting)
		}
	})
}
