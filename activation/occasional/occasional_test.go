package occasional

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAFloodIsALineNowAndThenWithACount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		to := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
		l := New(to, time.Second)
		for range 25 {
			l.Warn("again", "by", "them")
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Second)
		l.Warn("something else")
		assert.Equal(t, `level=WARN msg=again by=them
level=WARN msg=again by=them not_logged=9
level=WARN msg=again by=them not_logged=9
level=WARN msg="something else" not_logged=4
`, text.String())
	})
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
