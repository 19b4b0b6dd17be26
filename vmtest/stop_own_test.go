package vmtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

func TestAStopLeavesNothingInTheStore(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Minute))
		g.DropIn(service, "[Service]\nTimeoutStopSec=5s\n")
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		reload(g, staying(time.Minute, "more tcp://127.0.0.1:8081"))
		load := g.StartLoad(vmtest.Load{Callers: -1}, stays, staysPath)
		before := stored(t, g)
		g.Run("systemctl", "stop", "--no-block", service)
		g.Await("nobody new is let in", func() bool { return g.Call(stays) != "" })
		assertRefused(t, g, stays, "while it drains")
		assertRefused(t, g, staysPath, "while it drains")
		g.Await("no socket in the store", func() bool { return stored(t, g) <= before-3 })
		time.Sleep(6 * time.Second) // longer than systemd would wait unless it were told
		assert.Equal(t, "deactivating", g.Property(service, "ActiveState"))
		assertNoneLost(t, load.Stop())
		g.AwaitUnit(service, "ActiveState", "inactive")
		assert.Equal(t, "success", g.Property(service, "Result"))
		assert.Zero(t, stored(t, g))

		g.Run("systemctl", "start", service)
		assertSockets(t, g, 1, allActive("bind", 1, stays, staysPath, "tcp://127.0.0.1:8081")...)
		assert.Empty(t, g.Call(stays, staysPath))
	})
}
