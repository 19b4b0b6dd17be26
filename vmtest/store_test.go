package vmtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// A store of 5 has room for two sockets, a configuration, the next one while it is
// put into service, and the place that stays free.
func TestAReloadThatTheStoreHasNoRoomForIsRefused(t *testing.T) {
	const more = "tcp://127.0.0.1:8081"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Minute))
		g.DropIn(service, "[Service]\nFileDescriptorStoreMax=5\n")
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		load := g.StartLoad(vmtest.Load{}, stays, staysPath)
		assertLogged(t, g, "3", "connections end with this process")
		c := g.Status().Connections
		assert.Zero(t, c.Kept)
		assert.GreaterOrEqual(t, c.Unkept, 8, "the streams")
		g.Write(vmtest.ConfigFile, staying(time.Minute, "more "+more))
		assert.NotZero(t, g.Try("systemctl", "reload", service).Code)
		assertSockets(t, g, 1, withStaying(1)...)
		assertStoredWithoutVault(t, g, 2)
		assertRefused(t, g, more, "")
		const reason = "no room in the descriptor store: 3 of its 5 places are taken, 2 more are wanted and one has to stay free"
		assert.Equal(t, reason, g.Status().Listeners.LastError)
		assertLogged(t, g, "3", reason)

		reload(g, staying(time.Minute))
		assertSockets(t, g, 2, withStaying(2)...)
		assert.Empty(t, g.Status().Listeners.LastError)
		assertNoneLost(t, load.Stop())
	})
}

func TestAStartThatTheStoreHasNoRoomForServesAndSaysWhatIsNotKept(t *testing.T) {
	const more = "tcp://127.0.0.1:8081"
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Second, "more "+more))
		g.DropIn(service, "[Service]\nFileDescriptorStoreMax=4\n")
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		assertSockets(t, g, 1, allActive("bind", 1, stays, staysPath, more)...)
		assertLogged(t, g, "3", "not kept when this process ends")
		assert.Zero(t, stored(t, g))
		restart(g)
		assert.Empty(t, g.Call(stays, staysPath, more))

		reload(g, staying(time.Second))
		assertStoredWithoutVault(t, g, 2)
		restart(g)
		assertSockets(t, g, 2, allActive("store", 2, stays, staysPath)...)
	})
}

func TestForeignDescriptorsInTheStoreDoNoHarm(t *testing.T) {
	foreign := []string{"", "other/1", "socket/zz=tcp://127.0.0.1:8090"}
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(staying(time.Second))
		g.DropIn(service, "[Service]\nExecStartPre=/run/vmtest/guest push \""+strings.Join(foreign, `" "`)+"\"\n")
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		assertStored(t, g, len(foreign)+2)
		for _, name := range []string{"stored", "other/1", "socket/zz"} {
			assert.NotEmpty(t, g.Journal(service, "PRIORITY=4", "NAME="+name), name)
		}
		assertSockets(t, g, 1, allActive("bind", 1, stays, staysPath)...)
		load := g.StartLoad(vmtest.Load{}, stays, staysPath)
		reload(g, staying(time.Second, "more tcp://127.0.0.1:8081"))
		reload(g, staying(time.Second))
		assertSockets(t, g, 3, withStaying(3)...)
		assertNoneLost(t, load.Stop())
		g.DropIn(service, "")
		restart(g)
		assertSockets(t, g, 3, allActive("store", 3, stays, staysPath)...)
		assertStored(t, g, len(foreign)+2)
	})
}
