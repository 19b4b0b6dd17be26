package integration

import (
	"io"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// halfClose shuts one side's writing and expects the other's whole answer after
// it, from clients and from servers, over each pairing.
func halfClose(t *testing.T) traffic {
	pairs := pairings(t, "half-close")
	return traffic{"half-close", routes(pairs), func(t *testing.T, _ *testbed.Holdfast) {
		for _, p := range pairs {
			for _, size := range []int{0, 1, 1 << 20} {
				t.Run(p.name+" by the client after "+strconv.Itoa(size)+" bytes", func(t *testing.T) {
					client, server := p.open(t)
					requireAnswerAfterHalfClose(t, client, server, size)
				})
				t.Run(p.name+" by the server after "+strconv.Itoa(size)+" bytes", func(t *testing.T) {
					client, server := p.open(t)
					requireAnswerAfterHalfClose(t, server, client, size)
				})
			}
		}
	}}
}

// requireAnswerAfterHalfClose lets one end send, shut its writing and wait, and
// the other answer only once it has seen the end.
func requireAnswerAfterHalfClose(t *testing.T, asking, answering stream, size int) {
	question, answer := text(size), text(3<<20)
	go func() { // ends when all is sent or the connection is over
		_, _ = io.WriteString(asking, question)
		_ = asking.CloseWrite()
	}()
	got, err := io.ReadAll(answering)
	require.NoError(t, err)
	requireSame(t, question, got)

	go func() { // likewise
		_, _ = io.WriteString(answering, answer)
		_ = answering.Close()
	}()
	got, err = io.ReadAll(asking)
	require.NoError(t, err)
	requireSame(t, answer, got)
}

// requireSame compares long texts without printing them.
func requireSame(t *testing.T, want string, got []byte) {
	t.Helper()
	require.Equal(t, len(want), len(got), "length") //nolint:testifylint // Len would print it
	at := 0
	for at < len(want) && want[at] == got[at] {
		at++
	}
	require.Equal(t, len(want), at, "where the bytes differ")
}

// text is n bytes in which no part looks like its neighbours.
func text(n int) string {
	out := make([]byte, 0, n+8)
	for i := 0; len(out) < n; i++ {
		out = append(strconv.AppendInt(out, int64(i), 36), '\n')
	}
	return string(out[:n])
}

// TestSystemdSocketProxydLosesTheAnswer documents why half-close is tested so
// much: systemd's proxy closes both directions when one ends (seen in 252). It
// fails only when that proxy could not be run.
func TestSystemdSocketProxydLosesTheAnswer(t *testing.T) {
	p := pairings(t, "peer")[0]
	testbed.StartSocketProxyd(t, p.route.Listen[0], p.route.Servers[0])
	testbed.Listening(t, p.route.Listen[0])
	client, server := p.open(t)
	_, err := io.WriteString(client, "question")
	require.NoError(t, err)
	require.NoError(t, client.CloseWrite())
	_, err = io.ReadAll(server)
	require.NoError(t, err)
	_, _ = io.WriteString(server, "answer")
	_ = server.Close()
	got, err := io.ReadAll(client)
	t.Logf("systemd-socket-proxyd, after a half-close: answer %q, error %v", got, err)
	assert.LessOrEqual(t, len(got), len("answer"))
}
