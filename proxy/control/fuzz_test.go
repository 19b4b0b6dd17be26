package control

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzServer throws bytes at a running server: it answers or closes in time,
// and a good request after them is answered.
func FuzzServer(f *testing.F) {
	for _, seed := range []string{
		"",
		"GET /v1/status HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /v1/status HTTP/1.0\r\n\r\n",
		"GET /v1/status HTTP/1.1\r\nHost: h\r\n\r\nGET /v1/status HTTP/1.1\r\nHost: h\r\n\r\n",
		"POST /v1/status HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
		"POST /v1/status HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
		"GET /v1/status HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"{\"protocol\":1}",
	} {
		f.Add([]byte(seed))
	}
	path := socketPath(f)
	startServer(f, path, quiet())

	f.Fuzz(func(t *testing.T, request []byte) {
		conn, err := net.Dial("unix", path)
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		_, _ = conn.Write(request)
		_ = conn.(*net.UnixConn).CloseWrite()
		_, err = io.Copy(io.Discard, conn) // a reset is a close
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "neither an answer nor a close")

		answer, err := ask(path)
		require.NoError(t, err)
		assert.Equal(t, sample.PID, answer.PID)
	})
}
