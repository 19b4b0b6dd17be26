package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestSignalsAreKnownByTheirNames(t *testing.T) {
	for name, want := range map[string]unix.Signal{
		"": 0, "TERM": unix.SIGTERM, "SIGTERM": unix.SIGTERM, "quit": unix.SIGQUIT, "sigusr1": unix.SIGUSR1,
	} {
		got, err := parseSignal(name)
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
	}
	for _, name := range []string{"QUIET", "SIG", "15", "TERM "} {
		_, err := parseSignal(name)
		require.ErrorContains(t, err, "--stop is the name of a signal", name)
	}
}

func TestListenersOfAnAdoption(t *testing.T) {
	names, addresses := parseAdopted([]string{"web", "api=tcp://:1", "web=unix:///x=y", "api=:2"})
	assert.Equal(t, []string{"web", "api"}, names)
	assert.Equal(t, map[string][]string{"web": {"unix:///x=y"}, "api": {"tcp://:1", ":2"}}, addresses)
	names, addresses = parseAdopted(nil)
	assert.Empty(t, names)
	assert.Empty(t, addresses)
}
