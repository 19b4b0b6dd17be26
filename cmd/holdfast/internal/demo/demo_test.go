package demo

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is how long a test waits for what is due at once.
const patience = 10 * time.Second

// start runs the demo until the test or stop ends it, which checks that it ends
// well.
func start(t *testing.T) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	address, wait, err := Start(ctx)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- wait() }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			assert.NoError(t, err)
		case <-time.After(patience):
			assert.Fail(t, "the demo does not end")
		}
	})
	t.Cleanup(stop)
	return "http" + address.String()[len("tcp"):], stop
}

func get(t *testing.T, client *http.Client, url, accept string) (kind, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Accept", accept)
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	return response.Header.Get("Content-Type"), string(text)
}

func newClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

func TestPageForBrowserAndForCurl(t *testing.T) {
	url, _ := start(t)
	client := newClient(t)
	kind, body := get(t, client, url+"/", "text/html,*/*;q=0.8")
	assert.Equal(t, "text/html; charset=utf-8", kind)
	assert.Contains(t, body, "This page came through Holdfast")
	kind, body = get(t, client, url+"/", "*/*")
	assert.Equal(t, "text/plain; charset=utf-8", kind)
	assert.Contains(t, body, "asked "+url[len("http://"):])
}

func TestRequestsAreCountedByConnection(t *testing.T) {
	url, _ := start(t)
	client := newClient(t)
	_, body := get(t, client, url+"/", "*/*")
	assert.Contains(t, body, "request 1 on this connection")
	_, body = get(t, client, url+"/", "*/*")
	assert.Contains(t, body, "request 2 on this connection")
	_, body = get(t, newClient(t), url+"/", "*/*")
	assert.Contains(t, body, "request 1 on this connection")
}

func TestStreamTicksUntilTheServerStops(t *testing.T) {
	url, stop := start(t)
	response, err := newClient(t).Get(url + "/stream")
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	lines := bufio.NewScanner(response.Body)
	for _, want := range []string{"data: 0", "", "data: 1", ""} {
		require.True(t, lines.Scan())
		assert.Equal(t, want, lines.Text())
	}
	stop()
	_, err = io.Copy(io.Discard, response.Body)
	assert.NoError(t, err, "a stop is a clean end")
}
