package handover

import (
	"log/slog"
	"sync"
	"time"
)

// logEvery bounds the log lines that strangers can cause.
const logEvery = 10 * time.Second

// occasional is a log for what anybody can cause, as often as he likes.
type occasional struct {
	log *slog.Logger

	mu     sync.Mutex
	unsaid int // since the last line
	saidAt time.Time
}

// warn writes a line if the last one is long ago, with the number of those that
// were not written.
func (o *occasional) warn(text string, attrs ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if now.Sub(o.saidAt) < logEvery {
		o.unsaid++
		return
	}
	if o.unsaid > 0 {
		attrs = append(attrs, "not_logged", o.unsaid)
	}
	o.log.Warn(text, attrs...)
	o.unsaid, o.saidAt = 0, now
}
