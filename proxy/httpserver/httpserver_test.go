package httpserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is how long a test waits for what is due at once.
const patience = 10 * time.Second

// serve runs handler and returns its address, the end of its context, and what
// Serve returned.
func serve(t *testing.T, handler http.HandlerFunc, grace time.Duration) (address string, stop context.CancelFunc, ended <-chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	result := make(chan error, 1)
	go func() { result <- Serve(ctx, &http.Server{Handler: handler}, listener, grace) }() //nolint:gosec // no stranger connects to a test
	return listener.Addr().String(), stop, result
}

func await(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		require.Fail(t, "the server does not end")
		return nil
	}
}

func request(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	return conn
}

func TestARequestUnderWayIsAnsweredWithinTheGrace(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	address, stop, ended := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		_, _ = io.WriteString(w, "whole")
	}, patience)
	conn := request(t, address)
	<-begun
	stop()
	assert.Eventually(t, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, patience, time.Millisecond, "nobody new gets in")
	close(finish)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Contains(t, string(answer), "whole")
	assert.NoError(t, await(t, ended))
}

func TestARequestThatTakesLongerIsCut(t *testing.T) {
	begun, left := make(chan struct{}), make(chan struct{})
	address, stop, ended := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(left)
	}, time.Millisecond)
	conn := request(t, address)
	<-begun
	stop()
	require.NoError(t, await(t, ended))
	answer, _ := io.ReadAll(conn)
	assert.Empty(t, answer)
	<-left
}

func TestADeadListenerIsAnError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	err = Serve(t.Context(), &http.Server{}, listener, 0) //nolint:gosec // no stranger connects to a test
	assert.ErrorIs(t, err, net.ErrClosed)
}

func TestAContextThatEndedBeforeClosesTheListener(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	stop()
	require.NoError(t, Serve(ctx, &http.Server{}, listener, patience)) //nolint:gosec // no stranger connects to a test
	_, err = net.Dial("tcp", listener.Addr().String())
	assert.Error(t, err)
}
