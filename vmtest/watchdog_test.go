package vmtest_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/vmtest"
)

func TestAServiceThatHangsIsReplacedAndServesWhoWaited(t *testing.T) {
	const calls = 20
	vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
		g.Install(webToApp(web))
		g.DropIn(service, "[Service]\nWatchdogSec=2s\n")
		g.StartEcho(app)
		g.Run("systemctl", "start", service)
		pid := g.Status().PID
		g.Run("systemctl", "kill", "--signal=STOP", service)
		startCalls(g, slices.Repeat([]string{web}, calls)...)
		g.AwaitUnit("vmtest-calls.service", "ActiveState", "active")
		assert.NotEqual(t, pid, g.Status().PID)
		assertSockets(t, g, 1, allActive("store", 1, web)...)
	})
}
