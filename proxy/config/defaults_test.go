package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDefaultSockets(t *testing.T) {
	t.Parallel()
	for want, environ := range map[string][]string{
		"/run/holdfast":            nil,
		"/run/user/1000/holdfast":  {"XDG_RUNTIME_DIR=/run/user/1000"},
		"/run/a":                   {"XDG_RUNTIME_DIR=/run/user/1000", "RUNTIME_DIRECTORY=/run/a:/run/b"},
		"/run/user/0/holdfast":     {"RUNTIME_DIRECTORY=", "XDG_RUNTIME_DIR=/run/user/0"},
		"/run/user/0/own/holdfast": {"RUNTIME_DIRECTORY=relative", "XDG_RUNTIME_DIR=/run/user/0/own"},
	} {
		g := DefaultGlobal(environ)
		assert.Equal(t, want+"/control.sock", g.ControlSocket)
		assert.Equal(t, want+"/handover.sock", g.HandoverSocket)
	}
}

// A root shell has XDG_RUNTIME_DIR=/run/user/0, the service has /run/holdfast.
func TestCommandsFindTheSocketThatExists(t *testing.T) {
	t.Parallel()
	session, service := t.TempDir(), t.TempDir()
	environ := []string{"RUNTIME_DIRECTORY=" + service, "XDG_RUNTIME_DIR=" + session}
	assert.Equal(t, filepath.Join(service, "control.sock"), FindControlSocket(environ), "none exists")

	ours := filepath.Join(session, "holdfast", "control.sock")
	require.NoError(t, os.Mkdir(filepath.Dir(ours), 0o700))
	require.NoError(t, os.WriteFile(ours, nil, 0o600))
	assert.Equal(t, ours, FindControlSocket(environ))
}

func TestDefaultsOfAnUpstream(t *testing.T) {
	t.Parallel()
	c, err := parse("f.toml", minimalTOML)
	require.NoError(t, err)
	assert.Equal(t, Upstream{
		Name: "app", Servers: []Address{{Network: "tcp", Host: "127.0.0.1", Port: 9000}},
		Balance: RoundRobin, ConnectTimeout: 5 * time.Second, ConnectRetry: 10 * time.Second,
	}, c.Upstreams[0])

	c, err = parse("f.toml", minimalTOML+"health = {}\n")
	require.NoError(t, err)
	assert.Equal(t, &Health{Interval: 5 * time.Second, Timeout: time.Second, Rise: 2, Fall: 3}, c.Upstreams[0].Health, "a table switches checks on")
}

func TestTheHandoverSocketIsBesideTheControlSocket(t *testing.T) {
	t.Parallel()
	c, err := parse("f.toml", "[global]\ncontrol_socket = '/run/other/c.sock'\n"+minimalTOML)
	require.NoError(t, err)
	assert.Equal(t, "/run/other/handover.sock", c.Global.HandoverSocket)
	c, err = parse("f.toml", "[global]\ncontrol_socket = '/run/other/c.sock'\nhandover_socket = '/run/holdfast/handover.sock'\n"+minimalTOML)
	require.NoError(t, err)
	assert.Equal(t, "/run/holdfast/handover.sock", c.Global.HandoverSocket)
}
