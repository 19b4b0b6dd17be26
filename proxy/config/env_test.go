package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheEnvironmentAloneIsAConfiguration(t *testing.T) {
	t.Parallel()
	c, err := Load(Source{Environ: []string{
		"PATH=/bin", "HOLDFAST", "holdfast_x=1",
		"HOLDFAST_GLOBAL_LOG_LEVEL=debug",
		"HOLDFAST_GLOBAL_ACCESS_LOG=true",
		"HOLDFAST_GLOBAL_DRAIN_TIMEOUT=never",
		"HOLDFAST_GLOBAL_METRICS=",
		"HOLDFAST_LISTENER_WEB_LISTEN=tcp://:80, tcp://[::1]:81",
		"HOLDFAST_LISTENER_WEB_UPSTREAM=my_app",
		"HOLDFAST_LISTENER_WEB_MAX_CONNECTIONS=10",
		"HOLDFAST_LISTENER_WEB_IDLE_TIMEOUT=1m",
		"HOLDFAST_LISTENER_WEB_ACCEPT_PROXY=true",
		"HOLDFAST_LISTENER_WEB_TRUSTED=10.0.0.0/8,::1",
		"HOLDFAST_UPSTREAM_MY_APP_SERVERS=h:1",
		"HOLDFAST_UPSTREAM_MY_APP_CONNECT_TIMEOUT=2s",
		"HOLDFAST_UPSTREAM_MY_APP_HEALTH_TIMEOUT=3s",
		"HOLDFAST_UPSTREAM_MY_APP_HEALTH_RISE=9",
	}})
	require.NoError(t, err)
	assert.Equal(t, LogDebug, c.Global.LogLevel)
	assert.True(t, c.Global.AccessLog)
	assert.True(t, c.Global.DrainTimeout.Never)
	assert.Nil(t, c.Global.Metrics)
	require.Len(t, c.Listeners, 1)
	web := c.Listeners[0]
	assert.Equal(t, "web", web.Name)
	assert.Equal(t, []Address{{Network: "tcp", Port: 80}, {Network: "tcp", Host: "::1", Port: 81}}, web.Listen)
	assert.Equal(t, 10, web.MaxConnections)
	assert.Equal(t, time.Minute, web.IdleTimeout)
	assert.Len(t, web.Trusted, 2)
	require.Len(t, c.Upstreams, 1)
	app := c.Upstreams[0]
	assert.Equal(t, "my_app", app.Name)
	assert.Equal(t, 2*time.Second, app.ConnectTimeout)
	assert.Equal(t, &Health{Interval: 5 * time.Second, Timeout: 3 * time.Second, Rise: 9, Fall: 3}, app.Health)
}

func TestVariablesFindTheNamesOfTheFile(t *testing.T) {
	t.Parallel()
	const file = `
[listener]
"Web-1.eu" = { upstream = "a" }
x_upstream = { upstream = "a" }
[upstream.a]
servers = "h:1"
`
	for variable, name := range map[string]string{
		"HOLDFAST_LISTENER_WEB_1_EU_LISTEN=tcp://:1":   "Web-1.eu",
		"HOLDFAST_LISTENER_X_UPSTREAM_LISTEN=tcp://:1": "x_upstream",
	} {
		c, err := Parse("f.toml", []byte(file), []string{variable}, Overrides{})
		require.NoError(t, err, variable)
		require.Len(t, c.Listeners, 2, variable)
		for _, l := range c.Listeners {
			assert.Equal(t, l.Name == name, len(l.Listen) == 1, "%s: %s", variable, l.Name)
		}
	}
}

func TestBadVariablesAreNamed(t *testing.T) {
	t.Parallel()
	const file = minimalTOML + `
[listener.a-b]
upstream = "app"
[listener.a_b]
upstream = "app"
`
	for variable, want := range map[string]string{
		"HOLDFAST_=":                                      "HOLDFAST_: unknown variable (known are: HOLDFAST_GLOBAL_…",
		"HOLDFAST_GLOBAL=1":                               "HOLDFAST_GLOBAL: unknown variable",
		"HOLDFAST_GLOBL_KEEP=1":                           "HOLDFAST_GLOBL_KEEP: unknown variable",
		"HOLDFAST_GLOBAL_LOG_LEVL=info":                   `HOLDFAST_GLOBAL_LOG_LEVL: unknown variable: it does not end in a key of global (did you mean "LOG_LEVEL"?)`,
		"HOLDFAST_GLOBAL_LOG_LEVEL=loud":                  `HOLDFAST_GLOBAL_LOG_LEVEL: global.log_level: unknown value "loud"`,
		"HOLDFAST_GLOBAL_ACCESS_LOG=yes":                  `HOLDFAST_GLOBAL_ACCESS_LOG: global.access_log: expected true or false, found "yes"`,
		"HOLDFAST_GLOBAL_DRAIN_TIMEOUT=60":                `HOLDFAST_GLOBAL_DRAIN_TIMEOUT: global.drain_timeout: "60" has no unit`,
		"HOLDFAST_LISTENER_WEB=1":                         "HOLDFAST_LISTENER_WEB: unknown variable: it does not end in a key of listener",
		"HOLDFAST_LISTENER_LISTEN=1":                      "HOLDFAST_LISTENER_LISTEN: unknown variable: it names no listener",
		"HOLDFAST_LISTENER__LISTEN=tcp://:1":              "HOLDFAST_LISTENER__LISTEN: unknown variable: it names no listener",
		"HOLDFAST_LISTENER_É_UPSTREAM=app":                `HOLDFAST_LISTENER_É_UPSTREAM: listener."é": a name has`,
		"HOLDFAST_LISTENER_WEB_HEALTH_RISE=1":             "HOLDFAST_LISTENER_WEB_HEALTH_RISE: unknown variable",
		"HOLDFAST_LISTENER_A_B_LISTEN=tcp://:1":           `HOLDFAST_LISTENER_A_B_LISTEN: A_B could be each of "a-b", "a_b"`,
		"HOLDFAST_LISTENER_WEB_LISTEN=tcp://:1,,tcp://:2": "HOLDFAST_LISTENER_WEB_LISTEN: listener.web.listen[1]: ",
		"HOLDFAST_LISTENER_WEB_MAX_CONNECTIONS=1e3":       `listener.web.max_connections: expected a whole number, found "1e3"`,
		"HOLDFAST_UPSTREAM_APP_SERVERS=":                  "HOLDFAST_UPSTREAM_APP_SERVERS: upstream.app.servers: at least one server",
		"HOLDFAST_UPSTREAM_APP_HEALTH=1":                  "HOLDFAST_UPSTREAM_APP_HEALTH: unknown variable",
	} {
		_, err := Parse("f.toml", []byte(file), []string{variable}, Overrides{})
		require.Error(t, err, variable)
		assert.Contains(t, err.Error(), want)
	}
}

func TestVariablesOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	_, err := Parse("f.toml", []byte(minimalTOML), []string{
		"HOLDFAST_PORT=tcp://10.0.0.1:80", "HOLDFAST_PORT_80_TCP=tcp://10.0.0.1:80", "HOLDFAST_PORT_80_TCP_PROTO=tcp",
		"HOLDFAST_SERVICE_HOST=10.0.0.1", "HOLDFAST_SERVICE_PORT=80", "HOLDFAST_TEST_BINARY=1",
	}, Overrides{})
	require.NoError(t, err)
}
