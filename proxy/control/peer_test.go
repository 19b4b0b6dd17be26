package control

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const nobody = 65534

// askAsNobody runs a client as another user and returns the error it got.
func askAsNobody(t *testing.T, path string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a client of another user")
	}
	// The test binary's own directory is closed to others; this link is not.
	child := exec.Command("/proc/self/exe")
	child.Dir = "/"
	child.Env = []string{childSocket + "=" + path, "GORACE=atexit_sleep_ms=0"}
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := child.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

func TestOtherUsersCannotConnect(t *testing.T) {
	path := socketPath(t)
	startServer(t, path, quiet())
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o711)) // so that only the socket's mode counts
	assert.Equal(t, "control socket "+path+": permission denied", askAsNobody(t, path))
}

func TestOtherUsersAreRefusedEvenIfTheModeLetsThemIn(t *testing.T) {
	path := socketPath(t)
	var log syncBuffer
	startServer(t, path, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o711))
	require.NoError(t, os.Chmod(path, 0o666))

	for range 3 {
		assert.Equal(t, "control socket "+path+": the connection was closed before an answer came", askAsNobody(t, path))
	}
	assert.Equal(t, 1, strings.Count(log.String(), "another user refused"), "the log is flooded")
	assert.Contains(t, log.String(), "level=WARN")
	assert.Contains(t, log.String(), "uid=65534")
	_, err := ask(path)
	assert.NoError(t, err)
}

// A server that was handed a TCP socket by mistake must not obey everybody.
func TestClientsOfAnotherNetworkAreRefused(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var log syncBuffer
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, sample, slog.New(slog.NewTextHandler(&log, nil))) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /v1/status HTTP/1.1\r\nHost: h\r\n\r\n")
	answer, _ := io.ReadAll(conn)
	assert.Empty(t, answer)
	assert.Contains(t, log.String(), "unknown user refused")
	cancel()
	assert.NoError(t, <-ended)
}

func TestWhoMayGiveOrders(t *testing.T) {
	assert.True(t, allowed(0))
	own := uint32(os.Geteuid())
	assert.True(t, allowed(own))
	assert.False(t, allowed(own+1))
}

type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
