package control

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exchange sends raw bytes and returns the answer, nil if a close or reset came
// before it.
func exchange(t *testing.T, path, request string) (*http.Response, []byte) {
	t.Helper()
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, _ = io.WriteString(conn, request) // the server may close before all is sent
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, nil
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body) // a reset ends the answer to one who is still sending
	return response, body
}

func TestRoutes(t *testing.T) {
	path := socketPath(t)
	startServer(t, path, quiet())

	for name, c := range map[string]struct {
		line  string
		code  int
		error string
	}{
		"status":          {"GET /v1/status", 200, ""},
		"query ignored":   {"GET /v1/status?x=1", 200, ""},
		"unknown route":   {"GET /v1/nonsense", 404, "unknown route"},
		"root":            {"GET /", 404, "unknown route"},
		"unclean path":    {"GET //v1/../v1/status", 404, "unknown route"},
		"wrong method":    {"POST /v1/status", 405, "wrong method, this route takes GET"},
		"general options": {"OPTIONS *", 404, "unknown route"},
		"proxy request":   {"CONNECT example.org:443", 404, "unknown route"},
	} {
		t.Run(name, func(t *testing.T) {
			response, body := exchange(t, path, c.line+" HTTP/1.1\r\nHost: holdfast\r\n\r\n")
			require.NotNil(t, response)
			assert.Equal(t, c.code, response.StatusCode)
			assert.Equal(t, contentType, response.Header.Get("Content-Type"))
			assert.True(t, response.Close, "one connection, one request")
			var answer failure
			require.NoError(t, json.Unmarshal(body, &answer))
			assert.Equal(t, c.error, answer.Error)
		})
	}
}

func TestBadRequestsAreRefusedAndHarmless(t *testing.T) {
	path := socketPath(t)
	startServer(t, path, quiet())
	const head = "GET /v1/status HTTP/1.1\r\nHost: holdfast\r\n"

	for name, c := range map[string]struct {
		request string
		code    int
	}{
		"binary":         {"\x00\xff\x16\x03\x01\r\n\r\n", 400},
		"http/2 preface": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 404},
		"no host":        {"GET /v1/status HTTP/1.1\r\n\r\n", 400},
		"huge header":    {head + "X: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431},
		"many headers":   {head + strings.Repeat("X: x\r\n", 64<<10) + "\r\n", 431},
		"endless line":   {"GET /" + strings.Repeat("x", 1<<20), 431},
		"huge body":      {"POST /v1/status HTTP/1.1\r\nHost: holdfast\r\nContent-Length: 99999999999\r\n\r\n", 405},
		"two lengths":    {head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
		"bad chunks":     {"POST /v1/status HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 405},
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := exchange(t, path, c.request)
			if response != nil {
				assert.Equal(t, c.code, response.StatusCode)
			}
			answer, err := ask(path)
			require.NoError(t, err)
			assert.Equal(t, sample.Status(), answer)
		})
	}
}

func TestManyAtOnceAreAllAnswered(t *testing.T) {
	path := socketPath(t)
	startServer(t, path, quiet())

	const clients = 100
	errs := make([]error, clients)
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() { _, errs[i] = ask(path) })
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// Every place at the gate is taken by a client that sends its header byte by
// byte and would go on for ever.
func TestSlowClientsHoldNobodyUpForLong(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	startServer(t, path, quiet())

	var group sync.WaitGroup
	for range maxConns {
		conn, err := net.Dial("unix", path)
		require.NoError(t, err)
		defer conn.Close()
		group.Go(func() {
			for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
				if _, err := conn.Write([]byte("x")); err != nil {
					tick.Stop()
					return
				}
			}
		})
	}
	started := time.Now()
	_, err := ask(path)
	require.NoError(t, err)
	assert.Greater(t, time.Since(started), headerTimeout/2, "the gate was not full")
	group.Wait() // all of them have lost their connection
}

func TestStopEndsWithSilentClientsConnected(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	listener := listen(t, path)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, sample, quiet()) }()
	for range maxConns + 5 { // the last ones are still in the queue
		conn, err := net.Dial("unix", path)
		require.NoError(t, err)
		defer conn.Close()
	}
	_, err := ask(path) // behind them
	require.NoError(t, err)

	cancel()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(patience):
		require.Fail(t, "the server does not end")
	}
	_, err = ask(path)
	assert.ErrorIs(t, err, ErrNotRunning)
}

func TestServeReportsADeadListener(t *testing.T) {
	path := socketPath(t)
	listener := listen(t, path)
	require.NoError(t, listener.Close())
	err := Serve(context.Background(), listener, sample, quiet())
	require.ErrorIs(t, err, net.ErrClosed)
	assert.ErrorContains(t, err, path)
}
