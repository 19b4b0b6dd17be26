package metrics

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// changing is an instance whose state a test changes.
type changing struct{ state atomic.Value }

func (c *changing) Status() status.Status {
	s := sample()
	s.State = c.state.Load().(status.State)
	return s
}

// start serves instance until the test ends and returns its base URL.
func start(t *testing.T, instance Instance) (url string) {
	t.Helper()
	config := net.ListenConfig{}
	config.SetMultipathTCP(false)
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, instance, quiet()) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			assert.NoError(t, err)
		case <-time.After(patience):
			assert.Fail(t, "the server does not end")
		}
	})
	return "http://" + listener.Addr().String()
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	client := http.Client{Timeout: patience}
	response, err := client.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func TestMetricsOverHTTP(t *testing.T) {
	url := start(t, canned(sample()))
	code, body := get(t, url+"/metrics")
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, body, "\nholdfast_connections_accepted_total 4716\n")
	assert.Contains(t, body, "\ngo_goroutines ")

	code, _ = get(t, url+"/")
	assert.Equal(t, http.StatusNotFound, code)
	response, err := http.Post(url+"/metrics", "text/plain", http.NoBody)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusMethodNotAllowed, response.StatusCode)
}

func TestReadyOnlyWhileRunning(t *testing.T) {
	instance := &changing{}
	instance.state.Store(status.Starting)
	url := start(t, instance)
	for _, c := range []struct {
		state status.State
		code  int
	}{
		{status.Starting, http.StatusServiceUnavailable},
		{status.Running, http.StatusOK},
		{status.Draining, http.StatusServiceUnavailable},
	} {
		instance.state.Store(c.state)
		code, body := get(t, url+"/ready")
		assert.Equal(t, c.code, code)
		assert.Equal(t, string(c.state)+"\n", body)
	}
}

func TestSilentClientsNeitherPileUpNorStay(t *testing.T) {
	t.Parallel()
	url := start(t, canned(sample()))
	const extra = 20
	closed := make(chan struct{}, maxConns+extra)
	for range maxConns + extra {
		conn, err := net.Dial("tcp", url[len("http://"):])
		require.NoError(t, err)
		defer conn.Close()
		go func() {
			_, _ = conn.Read(make([]byte, 1))
			closed <- struct{}{}
		}()
	}
	await := func(n int, within time.Duration) {
		deadline := time.After(within)
		for range n {
			select {
			case <-closed:
			case <-deadline:
				require.Fail(t, "silent connections stay")
			}
		}
	}
	await(extra, headerTimeout/2) // those too many go at once
	await(maxConns, headerTimeout+patience)
	code, _ := get(t, url+"/metrics")
	assert.Equal(t, http.StatusOK, code)
}

func TestServeReportsADeadListener(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	err = Serve(t.Context(), listener, canned(sample()), quiet())
	require.ErrorIs(t, err, net.ErrClosed)
	assert.ErrorContains(t, err, listener.Addr().String())
}
