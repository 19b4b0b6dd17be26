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
	const after = time.Hour
	w := idleWatch{after: after}
	passes := func(d time.Duration) {
		if !w.since.IsZero() {
			w.since = w.since.Add(-d)
		}
	}
	assert.False(t, w.over(0, 0), "the first look")
	passes(after / 2)
	assert.False(t, w.over(0, 0), "half of the time")
	passes(after / 2)
	assert.True(t, w.over(0, 0))

	assert.False(t, w.over(1, 1), "one has come")
	passes(2 * after)
	assert.False(t, w.over(1, 1), "it is there all the time")
	passes(2 * after)
	assert.False(t, w.over(0, 1), "it has only just left")
	passes(after - time.Second)
	assert.False(t, w.over(0, 1))
	assert.False(t, w.over(0, 2), "one came and went since the last look")
	passes(2 * after)
	assert.False(t, w.over(0, 2), "it may have left only just now")
	passes(after)
	assert.True(t, w.over(0, 2))
	assert.False(t, w.over(1, 2), "one of those that were counted is still there")
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
