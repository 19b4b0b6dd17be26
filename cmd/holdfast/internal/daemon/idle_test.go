package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/proxy/config"
)

func TestIdleIsOverOnlyWithoutConnectionsForTheWholeTime(t *testing.T) {
	w := idleWatch{after: time.Hour, since: time.Now().Add(-2 * time.Hour)}
	assert.True(t, w.over(0, 0))
	assert.False(t, w.over(1, 1), "one is alive")
	assert.False(t, w.over(0, 1), "it has only just left")
	w.since = time.Now().Add(-2 * time.Hour)
	assert.False(t, w.over(0, 2), "one came and went since the last look")
	w.since = time.Now().Add(-2 * time.Hour)
	assert.True(t, w.over(0, 2))
}

func TestExitIdleNeedsEverySocketFromSystemd(t *testing.T) {
	var book logBook
	d := &daemon{current: &generation{config: &config.Config{}}, log: book.logger()}
	d.current.config.Global.ExitIdle = time.Minute
	unit := activation.Socket{Listener: &sock.Listener{Info: sock.Info{Addr: sock.Unix("/run/unit")}}, Origin: activation.Systemd}
	own := activation.Socket{Listener: &sock.Listener{Info: sock.Info{Addr: sock.Unix("/run/own")}}, Origin: activation.Bind}

	d.sockets.inService = []activation.Socket{unit, unit}
	w := d.newIdleWatch()
	assert.NotNil(t, w.due())
	w.stop()
	assert.Empty(t, book.String())

	d.sockets.inService = []activation.Socket{unit, own}
	w = d.newIdleWatch()
	assert.Nil(t, w.due())
	assert.Contains(t, book.String(), `socket="unix /run/own"`)

	d.current.config.Global.ExitIdle, d.sockets.inService = 0, nil
	w = d.newIdleWatch()
	assert.Nil(t, w.due())
}
