package handover

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lend gives so many files to be lent, each with its own name. Three fit into a message.
func lend(t *testing.T, files int) []Socket {
	t.Helper()
	var lent []Socket
	for range files {
		f, err := os.CreateTemp(t.TempDir(), "lent")
		require.NoError(t, err)
		t.Cleanup(func() { _ = f.Close() })
		lent = append(lent, Socket{Label: Label{Name: f.Name() + strings.Repeat("x", 15<<10)}, FD: int(f.Fd())})
	}
	return lent
}

// drained is a session in which the replacement accepts alone.
func drained(t *testing.T, path string) *Session {
	t.Helper()
	s := dialSession(t, path)
	_, err := s.Hello(deadline(t), "2.0")
	require.NoError(t, err)
	got, err := s.SendListeningSockets(deadline(t))
	require.NoError(t, err)
	for _, r := range got {
		require.NoError(t, r.FD.Close())
	}
	require.NoError(t, s.BeginDrainingConnections(deadline(t), 0))
	return s
}

func TestConnectionsGoOverInAnyNumberOfMessages(t *testing.T) {
	path := socketPath(t)
	old := newOriginal(t)
	old.lent = lend(t, 7)
	serving := startInstance(t, path, old, Options{}, quiet())
	s := drained(t, path)
	got, err := s.SendConnections(deadline(t))
	require.NoError(t, err)
	require.Len(t, got, 7)
	for n, r := range got {
		assert.Equal(t, old.lent[n].Label, r.Label)
		require.NoError(t, r.FD.Close())
	}
	next, err := s.ShutdownOriginalNode(deadline(t))
	require.NoError(t, err)
	require.NoError(t, next.Close())
	serving.awaitEnd(t)
	assert.Equal(t, []string{"sockets", "drain 0s", "connections", "let go", "shutdown"}, old.heard())
}

func TestConnectionsStayWithAnOriginalWhoseReplacementGoesAway(t *testing.T) {
	path := socketPath(t)
	old := newOriginal(t)
	old.lent = lend(t, 1)
	startInstance(t, path, old, Options{}, quiet())
	s := drained(t, path)
	got, err := s.SendConnections(deadline(t))
	require.NoError(t, err)
	require.NoError(t, got[0].FD.Close())
	require.NoError(t, s.Close())
	old.awaitAbandoned(t)
	assert.Equal(t, []string{"sockets", "drain 0s", "connections", "abandoned"}, old.heard())
}

func TestAHandoverWithoutConnectionsIsOneAllTheSame(t *testing.T) {
	path := socketPath(t)
	old := newOriginal(t)
	old.refuse = map[string]error{"connections": os.ErrPermission}
	serving := startInstance(t, path, old, Options{}, quiet())
	s := drained(t, path)
	_, err := s.SendConnections(deadline(t))
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "permission denied")
	next, err := s.ShutdownOriginalNode(deadline(t))
	require.NoError(t, err)
	require.NoError(t, next.Close())
	serving.awaitEnd(t)
}

func TestAnOriginalThatCannotLetGoGoesOn(t *testing.T) {
	path := socketPath(t)
	old := newOriginal(t)
	old.lent = lend(t, 1)
	old.refuse = map[string]error{"let go": os.ErrPermission}
	startInstance(t, path, old, Options{}, quiet())
	s := drained(t, path)
	got, err := s.SendConnections(deadline(t))
	require.NoError(t, err)
	require.NoError(t, got[0].FD.Close())
	_, err = s.ShutdownOriginalNode(deadline(t))
	require.ErrorContains(t, err, "permission denied")
	require.NoError(t, s.Close())
	old.awaitAbandoned(t)
}
