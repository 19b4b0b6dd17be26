package daemon

import (
	"log/slog"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/systemd"
)

// newLog is the log of this process. Its level may change.
func newLog(level *slog.LevelVar) *slog.Logger {
	return slog.New(systemd.NewLogHandler(systemd.LogOptions{Identifier: "holdfast", Level: level}))
}

func levelOf(l config.LogLevel) slog.Level {
	switch l {
	case config.LogDebug:
		return slog.LevelDebug
	case config.LogWarn:
		return slog.LevelWarn
	case config.LogError:
		return slog.LevelError
	case config.LogInfo:
	}
	return slog.LevelInfo
}
