package control

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStatusArrivesAsTheInstanceSaidIt(t *testing.T) {
	path := socketPath(t)
	startServer(t, path, quiet())

	answer, err := NewClient(path).Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, sample.Status(), answer)

	raw, err := NewClient(path).StatusJSON(t.Context())
	require.NoError(t, err)
	want, err := json.Marshal(sample.Status())
	require.NoError(t, err)
	assert.JSONEq(t, string(want), string(raw))
}

func TestNotRunning(t *testing.T) {
	path := socketPath(t)
	stale := path + ".stale"
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	require.NoError(t, dead.Close())

	for name, path := range map[string]string{
		"no file":      path,
		"no directory": filepath.Join(path, "control.sock"),
		"stale file":   stale,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ask(path)
			require.ErrorIs(t, err, ErrNotRunning)
			assert.EqualError(t, err, "control socket "+path+": not running")
		})
	}
}

// foreign is another program at the path: it runs answer on each connection.
func foreign(t *testing.T, answer func(net.Conn)) (path string) {
	t.Helper()
	path = socketPath(t)
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			answer(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		assert.NoError(t, l.Close())
		<-ended
	})
	return path
}

func say(text string) func(net.Conn) {
	return func(conn net.Conn) { _, _ = io.WriteString(conn, text) }
}

// flood sends start, then filler until the client has had enough.
func flood(start, filler string) func(net.Conn) {
	return func(conn net.Conn) {
		_, err := io.WriteString(conn, start)
		for err == nil {
			_, err = io.WriteString(conn, filler)
		}
	}
}

func TestForeignProgramsAreTold(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct {
		answer func(net.Conn)
		want   string
	}{
		"another protocol":  {say("SSH-2.0-OpenSSH_9.6\r\n"), errForeign.Error()},
		"a web page":        {say("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi"), errForeign.Error()},
		"another HTTP API":  {say("HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n\r\n{\"message\":\"page not found\"}"), `it says "404 Not Found"`},
		"a redirect":        {say("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n"), `it says "302 Found"`},
		"not JSON":          {say(ok + "\r\n<html>"), errForeign.Error()},
		"JSON of another":   {say(ok + "\r\n[1,2,3]"), errForeign.Error()},
		"silence":           {say(""), "closed before an answer"},
		"a cut answer":      {say(ok + "Content-Length: 10\r\n\r\n{"), "closed before an answer"},
		"an endless line":   {flood("", strings.Repeat("x", 1<<16)), errForeign.Error()},
		"an endless header": {flood(ok, "X: "+strings.Repeat("x", 1<<16)+"\r\n"), errForeign.Error()},
		"an endless body":   {flood(ok+"\r\n", strings.Repeat(" ", 1<<16)), "more than 16777216 bytes"},
		"a refusal":         {say("HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\n\r\n{\"error\":\"busy\"}"), "the running instance refuses: busy"},
	} {
		t.Run(name, func(t *testing.T) {
			path := foreign(t, c.answer)
			_, err := ask(path)
			require.ErrorContains(t, err, "control socket "+path+": ")
			require.ErrorContains(t, err, c.want)
			assert.NotErrorIs(t, err, ErrNotRunning)
		})
	}
}

func TestDatagramSocketIsForeign(t *testing.T) {
	path := socketPath(t)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path})
	require.NoError(t, err)
	defer conn.Close()
	_, err = ask(path)
	assert.ErrorIs(t, err, errForeign)
}

func TestHungInstanceEndsWithTheContext(t *testing.T) {
	path := socketPath(t)
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = NewClient(path).Status(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.EqualError(t, err, "control socket "+path+": no answer: context deadline exceeded")
}

func TestFieldsOfANewerVersionAreIgnored(t *testing.T) {
	path := foreign(t, say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"pid\":12,\"later\":true}"))
	answer, err := ask(path)
	require.NoError(t, err)
	assert.Equal(t, 12, answer.PID)
	raw, err := NewClient(path).StatusJSON(t.Context())
	require.NoError(t, err)
	assert.Contains(t, string(raw), "later", "--json would lose it")
}

func TestUnusablePathIsNamed(t *testing.T) {
	path := filepath.Join(os.TempDir(), strings.Repeat("x", 200))
	_, err := ask(path)
	require.ErrorContains(t, err, path)
	assert.NotErrorIs(t, err, errForeign)
}
