package metrics

import (
	"log/slog"
	"testing"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/leaktest"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is how long a test waits for what is due at once.
const patience = 10 * time.Second

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// canned is an instance whose status never changes.
type canned status.Status

func (c canned) Status() status.Status { return status.Status(c) }

func sample() status.Status {
	return status.Status{
		Version:    "1.2.3",
		PID:        4711,
		Generation: 7,
		State:      status.Running,
		Holder:     status.HolderKeeper,
		StartedAt:  time.UnixMilli(1_700_000_000_250),
		Listeners: status.Listeners{
			LastError: "listener alt (tcp 127.0.0.1:8090): address already in use",
			Sockets: []status.Socket{
				{Socket: "tcp 127.0.0.1:8080", Names: []string{"web"}, State: status.SocketActive, Connections: 12, Accepted: 4711},
				{Socket: "unix /run/holdfast/web.sock", Names: []string{"web", "api"}, State: status.SocketDraining, Connections: 3, Accepted: 5, Paused: true},
			},
		},
		Upstreams: []status.Upstream{{Name: "app", Servers: []status.Server{
			{Address: "tcp://127.0.0.1:9000", Healthy: true, Connections: 15},
			{Address: "unix:///run/app.sock", LastError: "connection refused"},
		}}},
		Connections: status.Connections{
			Active: 15, Accepted: 4716, Restored: 9, Failed: 1, BytesIn: 1 << 40, BytesOut: 2048, Unlogged: 4,
			Kept: 12, Unkept: 3, Lost: 2, RestorePause: 17.5,
		},
	}
}
