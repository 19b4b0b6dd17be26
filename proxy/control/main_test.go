package control

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/leaktest"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// childSocket makes the test binary a client of the socket it names, for tests
// that need a client which is another process.
const childSocket = "CONTROL_TEST_CHILD_SOCKET"

func TestMain(m *testing.M) {
	if path := os.Getenv(childSocket); path != "" {
		_, err := NewClient(path).Status(context.Background())
		fmt.Println(err)
		return
	}
	leaktest.Main(m)
}

// patience is how long a test waits for what is due at once.
const patience = 10 * time.Second

// canned is an instance whose status never changes.
type canned status.Status

func (c canned) Status() status.Status { return status.Status(c) }

// errRefused is what canned says to every reload.
var errRefused = &RefusedError{Reason: "two things are wrong", Problems: []Problem{{"one", "mend it"}, {"two", ""}}}

func (c canned) Reload(context.Context) (status.Reload, error) { return status.Reload{}, errRefused }

func (c canned) Upgrade(context.Context) (status.Upgrade, error) {
	return status.Upgrade{}, errRefused
}

var sample = canned{
	Version:    "1.2.3",
	PID:        4711,
	Generation: 7,
	State:      status.Running,
	StartedAt:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	Listeners: status.Listeners{Sockets: []status.Socket{
		{Socket: "tcp 127.0.0.1:8080", Names: []string{"web"}, State: status.SocketActive, Generations: []uint64{7}, Origin: "bind"},
	}},
	Upstreams: []status.Upstream{{Name: "app", Servers: []status.Server{{Address: "tcp://127.0.0.1:9000", Healthy: true}}}},
}

// socketPath is short whatever the test's name: a socket's path holds 107 bytes.
func socketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "control")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "control.sock")
}

// listen is a control socket as the server is handed one.
func listen(t testing.TB, path string) net.Listener {
	t.Helper()
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o600))
	return listener
}

// startServer serves sample at path until the test ends.
func startServer(t testing.TB, path string, log *slog.Logger) {
	t.Helper()
	listener := listen(t, path)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, sample, log) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			assert.NoError(t, err)
		case <-time.After(patience):
			assert.Fail(t, "the server does not end")
		}
	})
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// ask is a client's whole life: it must be answered in time.
func ask(path string) (status.Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return NewClient(path).Status(ctx)
}

func (c canned) Drain(context.Context) (status.Drain, error) {
	return status.Drain{Connections: 3}, nil
}
