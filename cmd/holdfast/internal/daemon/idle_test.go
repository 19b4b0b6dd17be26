package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-proxy/holdfast/proxy"
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
	d := &daemon{config: &config.Config{}, log: book.logger()}
	d.config.Global.ExitIdle = time.Minute
	shared, own := proxy.Socket{Label: "tcp 127.0.0.1:80", Shared: true}, proxy.Socket{Label: "tcp 127.0.0.1:81", Listener: "own"}

	w := d.newIdleWatch([]proxy.Socket{shared, shared})
	assert.NotNil(t, w.due())
	w.stop()
	assert.Empty(t, book.String())

	w = d.newIdleWatch([]proxy.Socket{shared, own})
	assert.Nil(t, w.due())
	assert.Contains(t, book.String(), `socket="tcp 127.0.0.1:81"`)

	d.config.Global.ExitIdle = 0
	w = d.newIdleWatch([]proxy.Socket{shared})
	assert.Nil(t, w.due())
}
