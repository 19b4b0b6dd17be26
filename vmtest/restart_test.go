package vmtest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

func TestRestartRefusesNobody(t *testing.T) {
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp())
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.socket")
		load := g.StartLoad(vmtest.Load{}, web)
		for range 10 {
			g.Run("systemctl", "restart", "holdfast.service")
		}
		r := load.Stop()
		assert.Zero(t, r.New.Bad(), r.Errors)
		assert.Zero(t, r.Streams.Refused, r.Errors)
		assert.Greater(t, r.New.OK, 10)
	})
}
