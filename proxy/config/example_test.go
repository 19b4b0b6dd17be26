package config

import (
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exampleConfig is what the three example files say.
func exampleConfig() *Config {
	return &Config{
		Global: Global{
			ControlSocket:  "/run/holdfast/control.sock",
			HandoverSocket: "/run/holdfast/handover.sock",
			Keep:           KeepConnections,
			DrainTimeout:   Timeout{Duration: time.Minute},
			OnTerm:         OnTermAuto,
			Metrics:        &Address{Network: "tcp", Host: "127.0.0.1", Port: 9117},
			LogLevel:       LogInfo,
		},
		Listeners: []Listener{
			{
				Name: "redis", Upstream: "redis",
				Listen: []Address{{Network: "tcp", Host: "127.0.0.1", Port: 6380}, {Network: "unix", Path: "/run/holdfast/redis.sock"}},
			},
			{
				Name: "web", Upstream: "web", AcceptProxy: true,
				Listen: []Address{{Network: "tcp", Port: 8080}},
				Trusted: []netip.Prefix{
					netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("192.0.2.7/32"),
				},
			},
		},
		Upstreams: []Upstream{
			{
				Name: "redis", Balance: RoundRobin, ConnectTimeout: 5 * time.Second, ConnectRetry: 10 * time.Second,
				Servers: []Address{
					{Network: "tcp", Host: "127.0.0.1", Port: 6379},
					{Network: "tcp", Host: "redis.internal", Port: 6379},
					{Network: "unix", Path: "/run/redis/redis.sock"},
				},
				Health: &Health{Interval: 5 * time.Second, Timeout: time.Second, Rise: 2, Fall: 3},
			},
			{
				Name: "web", Balance: RoundRobin, ConnectTimeout: 5 * time.Second, ConnectRetry: 10 * time.Second,
				Servers: []Address{{Network: "tcp", Host: "127.0.0.1", Port: 9000}}, SendProxy: SendProxyV2,
			},
		},
	}
}

func TestTheThreeFormatsSayTheSame(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"testdata/example.toml", "testdata/example.yaml", "testdata/example.json"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			c, err := Load(Source{File: file})
			require.NoError(t, err)
			assert.Equal(t, exampleConfig(), c)
		})
	}
}

func TestTheExampleHasEveryKey(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/example.toml")
	require.NoError(t, err)
	doc, problems := parseTOML("example.toml", data)
	require.Empty(t, problems)

	given := map[string]bool{}
	for id := range doc.places {
		k := key(strings.Split(id, delimiter))
		if k[0] != "global" && len(k) > 1 {
			k = append(key{k[0]}, k[2:]...)
		}
		given[k.String()] = true
	}
	for section, s := range schema.keys {
		if s.kind == kindNamed {
			s = *s.each
		}
		for _, v := range slices.Collect(maps.Values(s.variables())) {
			assert.Contains(t, given, key{section}.child(v.key...).String())
		}
	}
}
