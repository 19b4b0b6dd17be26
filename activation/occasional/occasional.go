// Package occasional has a log for what others can cause, as often as they like.
package occasional

import (
	"log/slog"
	"sync"
	"time"
)

// Log writes a line at most once in a time.
type Log struct {
	to    *slog.Logger
	every time.Duration

	mu     sync.Mutex
	unsaid int // since the last line
	saidAt time.Time
}

// New makes one that writes to another.
func New(to *slog.Logger, every time.Duration) *Log { return &Log{to: to, every: every} }

// Warn writes a line if the last one is long enough ago, with the number of those that
// were not written as not_logged.
func (l *Log) Warn(text string, attrs ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.saidAt) < l.every {
		l.unsaid++
		return
	}
	if l.unsaid > 0 {
		attrs = append(attrs, "not_logged", l.unsaid)
	}
	l.to.Warn(text, attrs...)
	l.unsaid, l.saidAt = 0, now
}
