package integration

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// patience is how long a peer may take for what it should do at once. It is
// generous: the machine may be busy with something else.
const patience = 20 * time.Second

// stream is a TCP or Unix connection.
type stream interface {
	net.Conn
	CloseWrite() error
}

// dial connects to an address of the config until the test is over.
func dial(t testing.TB, address string) stream {
	t.Helper()
	return dialFrom(t, "", address)
}

// dialFrom is dial from a given source address, such as 127.0.0.2.
func dialFrom(t testing.TB, source, address string) stream {
	t.Helper()
	var d net.Dialer
	if source != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	network, rest := testbed.Split(address)
	conn, err := d.Dial(network, rest)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn.(stream)
}

// listen serves each connection of an address of the config in a goroutine,
// until the test is over.
func listen(t testing.TB, address string, serve func(conn stream)) {
	t.Helper()
	network, rest := testbed.Split(address)
	l, err := net.Listen(network, rest)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				defer func() { _ = conn.Close() }()
				serve(conn.(stream))
			}()
		}
	}()
}

// echo sends back what it gets.
func echo(conn stream) { _, _ = io.Copy(conn, conn) }

// expect reads exactly the text.
func expect(t testing.TB, from io.Reader, text string) {
	t.Helper()
	got := make([]byte, len(text))
	n, err := io.ReadFull(from, got)
	require.NoError(t, err, "read %q, want %q", got[:n], text)
	require.Equal(t, text, string(got))
}

// requireEcho sends a line and reads it back.
func requireEcho(t testing.TB, conn io.ReadWriter, line string) {
	t.Helper()
	_, err := io.WriteString(conn, line)
	require.NoError(t, err)
	expect(t, conn, line)
}
