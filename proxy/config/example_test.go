package config

import (
	"net/netip"
	"os"
	"regexp"
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

// commented is a line that shows a default, as "#key = value".
var commented = regexp.MustCompile(`(?m)^#(\w+ *=)`)

// withDefaults is the TOML example with what is commented out set.
func withDefaults(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/example.toml")
	require.NoError(t, err)
	return commented.ReplaceAll(data, []byte("$1"))
}

func TestWhatTheExampleCommentsOutIsTheDefault(t *testing.T) {
	t.Parallel()
	c, err := Parse("example.toml", withDefaults(t), nil, Overrides{})
	require.NoError(t, err)
	assert.Equal(t, exampleConfig(), c, "it changes nothing")
}

func TestTheExampleHasEveryKey(t *testing.T) {
	t.Parallel()
	doc, problems := parseTOML("example.toml", withDefaults(t))
	require.Empty(t, problems)

	given := map[string]bool{}
	for id := range doc.places {
		k := key(strings.Split(id, delimiter))
		if k[0] != "global" && len(k) > 1 {
			k = append(key{k[0]}, k[2:]...)
		}
		given[k.String()] = true
	}
	for _, k := range everyKey() {
		assert.Contains(t, given, k.String())
	}
}

// everyKey is each key that the configuration knows, without the names of
// listeners and upstreams.
func everyKey() []key {
	var keys []key
	for section, s := range schema.keys {
		if s.kind == kindNamed {
			s = *s.each
		}
		for _, v := range s.variables() {
			keys = append(keys, key{section}.child(v.key...))
		}
	}
	return keys
}

// settingsRow is a row of a table of settings: key, default, meaning. A default
// that is no TOML value stands without quotes around it.
var settingsRow = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| (?:`([^`]+)` |[^|]*)\\| ")

// The document for operators has the same keys and the same defaults.
func TestTheTablesOfSettingsAreTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, settings, _ := strings.Cut(string(text), "\n## Settings\n")
	settings, _, _ = strings.Cut(settings, "\n### Environment")

	listed := map[string]bool{}
	with := "" // what the tables say, as a file
	for section, needed := range map[string]string{"global": "", "listener": "upstream = 'n'\n", "upstream": "servers = 'h:1'\n"} {
		heading, name := "["+section+"]", section
		if section != "global" {
			heading, name = "["+section+".NAME]", section+".n"
		}
		_, table, found := strings.Cut(settings, "### "+heading+"\n")
		require.True(t, found, heading)
		table, _, _ = strings.Cut(table, "\n### ")
		with += "[" + name + "]\n" + needed
		for _, row := range settingsRow.FindAllStringSubmatch(table, -1) {
			listed[section+"."+row[1]] = true
			if row[2] != "" {
				with += row[1] + " = " + row[2] + "\n"
			}
		}
	}
	for _, k := range everyKey() {
		assert.True(t, listed[k.String()], "docs/operations.md does not tell of %v", k)
	}
	assert.Len(t, listed, len(everyKey()), "a key that does not exist")

	got, err := parse("tables.toml", with)
	require.NoError(t, err, with)
	want, err := parse("f.toml", "listener.n.upstream = 'n'\nupstream.n = {servers = 'h:1', health = {}}\n")
	require.NoError(t, err)
	want.Listeners[0].Listen, want.Listeners[0].Trusted = []Address{}, []netip.Prefix{} // the tables write the empty list
	assert.Equal(t, want, got)
}
