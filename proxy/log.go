package proxy

import (
	"context"
	"log/slog"

	"github.com/holdfast-proxy/holdfast/proxy/relay"
)

// logEnd writes the line of one connection.
func (e *Engine) logEnd(end relay.End) {
	level := slog.LevelDebug
	if e.accessLog.Load() {
		level = slog.LevelInfo
	}
	client := "unix"
	if end.Client.IsValid() {
		client = end.Client.String()
	}
	e.log.LogAttrs(context.Background(), level, "connection",
		slog.String("listener", end.Listener), slog.String("socket", end.Socket), slog.String("client", client),
		slog.String("upstream", end.Upstream), slog.String("server", end.Server),
		slog.Int64("bytes_in", end.BytesIn), slog.Int64("bytes_out", end.BytesOut),
		slog.Duration("duration", end.Duration), slog.String("reason", string(end.Reason)))
}
