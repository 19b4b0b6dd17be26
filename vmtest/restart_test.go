package vmtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

// Streams do not end by themselves, so each restart takes all of drain_timeout, and
// new clients wait as long. As shipped that would be 60 s.
func TestRestartRefusesNobody(t *testing.T) {
	const drain = 500 * time.Millisecond
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToAppDraining(drain))
		g.StartEcho(app)
		g.Run("systemctl", "start", "holdfast.socket")
		load := g.StartLoad(vmtest.Load{}, web)
		for range 10 {
			restart(g)
		}
		r := load.Stop()
		assert.Zero(t, r.New.Bad(), r.Errors)
		assert.Zero(t, r.Streams.Refused, r.Errors)
		assert.Greater(t, r.New.OK, 10)
		assert.Greater(t, r.NewGap, drain)
	})
}
