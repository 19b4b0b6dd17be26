package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withListener is a valid file but for what is added to its listener.
func withListener(lines string) string {
	return "[upstream.app]\nservers = \"tcp://127.0.0.1:9000\"\n[listener.web]\nupstream = \"app\"\n" + lines
}

// withUpstream is a valid file but for what is added to its upstream.
func withUpstream(lines string) string {
	return "[listener.web]\nupstream = \"app\"\n[upstream.app]\nservers = \"tcp://127.0.0.1:9000\"\n" + lines
}

func withGlobal(lines string) string {
	return "[global]\n" + lines + minimalTOML
}

// Each file has one mistake; want is the one line that names it, "" if it is
// none.
func TestRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, want string }{
		"keep":                   {withGlobal(`keep = "all"`), `f.toml:2:1: global.keep: unknown value "all", expected one of "connections", "listeners"`},
		"on_term":                {withGlobal(`on_term = "drian"`), `f.toml:2:1: global.on_term: unknown value "drian", expected one of "auto", "keep", "drain" (did you mean "drain"?)`},
		"log_level":              {withGlobal(`log_level = "warning"`), `f.toml:2:1: global.log_level: unknown value "warning", expected one of "debug", "info", "warn", "error"`},
		"exit_idle":              {withGlobal(`exit_idle = "-1s"`), `f.toml:2:1: global.exit_idle: "-1s" is negative`},
		"drain_timeout never":    {withGlobal(`drain_timeout = "never"`), ``},
		"metrics off":            {withGlobal(`metrics = ""`), ``},
		"metrics":                {withGlobal(`metrics = "tcp://localhost:1"`), `f.toml:2:1: global.metrics: a name such as "localhost" may stand for several addresses, one to listen on is needed (write 127.0.0.1 or [::1] for this host alone, tcp://:PORT for every address)`},
		"metrics on a path":      {withGlobal(`metrics = "unix:///run/m"`), `f.toml:2:1: global.metrics: metrics are served over TCP only (write tcp://HOST:PORT)`},
		"metrics without a host": {withGlobal(`metrics = "9117"`), `f.toml:2:1: global.metrics: "9117": missing port in address (write tcp://HOST:PORT)`},
		"metrics on a listener":  {withGlobal(`metrics = "tcp://:8080"`), `f.toml:4:1: listener.web.listen[0]: tcp://:8080 is already global.metrics (first at f.toml:2:1)`},
		"one path for two sockets": {
			withGlobal("control_socket = \"/run/x\"\nhandover_socket = \"/run/x\""),
			`f.toml:3:1: global.handover_socket: unix:///run/x is already global.control_socket (first at f.toml:2:1)`,
		},
		"listener on the control socket": {
			withListener(`listen = "unix:///run/holdfast/control.sock"`),
			`f.toml:5:1: listener.web.listen[0]: unix:///run/holdfast/control.sock is already global.control_socket`,
		},

		"no listen is fine":        {withListener(""), ``},
		"port 0":                   {withListener(`listen = ["tcp://:0", "tcp://:0"]`), ``},
		"overlap is left to bind":  {withListener(`listen = ["tcp://:80", "tcp://127.0.0.1:80", "tcp://[::]:80"]`), ``},
		"same address":             {withListener(`listen = ["tcp://:80", "tcp://:80"]`), `f.toml:5:24: listener.web.listen[1]: tcp://:80 is already listener.web.listen[0] (first at f.toml:5:11)`},
		"same address, spelled":    {withListener(`listen = ["tcp://[::1]:80", "tcp://[0:0::1]:80"]`), `f.toml:5:29: listener.web.listen[1]: tcp://[::1]:80 is already listener.web.listen[0] (first at f.toml:5:11)`},
		"same address, other one":  {withListener("listen = \"unix://@x\"\n[listener.alt]\nupstream = \"app\"\nlisten = \"unix://@x\""), `f.toml:5:1: listener.web.listen[0]: unix://@x is already listener.alt.listen[0] (first at f.toml:8:1)`},
		"same address, udp":        {withListener(`listen = ["udp://:53", "udp://:53"]`), `f.toml:5:24: listener.web.listen[1]: udp://:53 is already listener.web.listen[0] (first at f.toml:5:11)`},
		"udp beside tcp":           {withListener(`listen = ["udp://:53", "tcp://:53", "udp://:0", "udp://:0"]`), ``},
		"udp alone":                {withListener(`listen = "udp://:53"`), ``},
		"max_connections":          {withListener(`max_connections = -1`), `f.toml:5:1: listener.web.max_connections: -1 is not from 0 to 2147483647`},
		"max_connections, huge":    {withListener(`max_connections = 9223372036854775807`), `f.toml:5:1: listener.web.max_connections: 9223372036854775807 is not from 0 to 2147483647`},
		"max_connections, huger":   {withListener(`max_connections = 9223372036854775808`), `f.toml:5:1: listener.web.max_connections: expected a whole number, found the number 9.223372036854776e+18`},
		"accept_proxy, nobody":     {withListener(`accept_proxy = true`), `f.toml:5:1: listener.web.accept_proxy: nobody is trusted to send a PROXY header (write trusted = ["10.0.0.0/8"] with the networks of the proxies in front)`},
		"accept_proxy, bad":        {withListener("accept_proxy = true\ntrusted = 5"), `f.toml:6:1: listener.web.trusted: expected a string or a list of strings, found the number 5`},
		"trusted, no accept_proxy": {withListener(`trusted = "10.0.0.1"`), ``},
		"trusted":                  {withListener(`trusted = ["10.0.0.0/8", "10.0.0.0/99"]`), `f.toml:5:26: listener.web.trusted[1]: "10.0.0.0/99" is not a network (write "10.0.0.0/8" or "2001:db8::/32")`},

		"unused upstream":        {withUpstream("[upstream.spare]\nservers = \"h:1\""), ``},
		"upstream by address":    {"[upstream.app]\nservers = \"h:1\"\n[listener.web]\nupstream = \"tcp://h:1\"", `f.toml:4:1: listener.web.upstream: no upstream named "tcp://h:1" (an upstream has a name: write servers = ... in an [upstream.NAME] table)`},
		"upstream misspelled":    {"[upstream.app]\nservers = \"h:1\"\n[listener.web]\nupstream = \"ap\"", `f.toml:4:1: listener.web.upstream: no upstream named "ap" (did you mean "app"?)`},
		"upstream unlike any":    {"[upstream.app]\nservers = \"h:1\"\n[listener.web]\nupstream = \"redis\"", `f.toml:4:1: listener.web.upstream: no upstream named "redis"`},
		"upstream missing":       {"[listener.web]", `f.toml:1:11: listener.web.upstream: is missing (name an [upstream.NAME] table, or use --upstream)`},
		"upstream empty":         {"[listener.web]\nupstream = \"\"", `f.toml:2:1: listener.web.upstream: is empty`},
		"upstream of wrong kind": {"[listener.web]\nupstream = 5", `f.toml:2:1: listener.web.upstream: expected a string, found the number 5`},
		"servers missing":        {"[listener.web]\nupstream = \"a\"\n[upstream.a]", `f.toml:3:11: upstream.a.servers: at least one server is needed (write servers = ["tcp://HOST:PORT"])`},
		"servers empty":          {"[listener.web]\nupstream = \"a\"\n[upstream.a]\nservers = []", `f.toml:4:1: upstream.a.servers: at least one server is needed (write servers = ["tcp://HOST:PORT"])`},
		"servers of wrong kind":  {"[listener.web]\nupstream = \"a\"\n[upstream.a]\nservers = 5", `f.toml:4:1: upstream.a.servers: expected a string or a list of strings, found the number 5`},
		"server twice":           {"[listener.web]\nupstream = \"a\"\n[upstream.a]\nservers = [\"H:1\", \"tcp://h:1\"]", `f.toml:4:19: upstream.a.servers[1]: tcp://h:1 is already upstream.a.servers[0]`},
		"server over udp":        {"[listener.web]\nupstream = \"a\"\n[upstream.a]\nservers = \"udp://h:53\"", `f.toml:4:1: upstream.a.servers[0]: servers are reached over tcp or a unix socket, udp is not supported yet`},
		"balance":                {withUpstream(`balance = "roundrobin"`), `f.toml:5:1: upstream.app.balance: unknown value "roundrobin", expected one of "round_robin", "least_connections", "random2", "source_hash" (did you mean "round_robin"?)`},
		"send_proxy":             {withUpstream(`send_proxy = "v3"`), `f.toml:5:1: upstream.app.send_proxy: unknown value "v3", expected one of "", "v1", "v2" (did you mean "v1"?)`},
		"connect_timeout":        {withUpstream(`connect_timeout = "0"`), `f.toml:5:1: upstream.app.connect_timeout: must be more than zero`},
		"connect_retry 0":        {withUpstream(`connect_retry = "0"`), ``},
		"connect_retry never":    {withUpstream(`connect_retry = "never"`), `f.toml:5:1: upstream.app.connect_retry: "never" is only known to drain_timeout`},
		"health of no table":     {withUpstream(`health = true`), `f.toml:5:1: upstream.app.health: expected a table, found true`},
		"health unknown":         {withUpstream(`health = {path = "/"}`), `f.toml:5:11: upstream.app.health.path: unknown key (known are: "fall", "interval", "rise", "timeout")`},
		"health interval":        {withUpstream(`health = {interval = "0"}`), `f.toml:5:11: upstream.app.health.interval: must be more than zero`},
		"health rise":            {withUpstream(`health = {rise = 0}`), `f.toml:5:11: upstream.app.health.rise: 0 is not from 1 to 1000`},

		"loop":                   {withListener(`listen = "tcp://127.0.0.1:9000"`), `f.toml:2:1: upstream.app.servers[0]: tcp://127.0.0.1:9000 is listener "web" itself, which uses this upstream`},
		"loop by every address":  {withListener(`listen = "tcp://:9000"`), `f.toml:2:1: upstream.app.servers[0]: tcp://127.0.0.1:9000 is listener "web" itself, which uses this upstream`},
		"loop by two addresses":  {withListener(`listen = ["tcp://127.0.0.1:9000", "tcp://:9000"]`), `f.toml:2:1: upstream.app.servers[0]: tcp://127.0.0.1:9000 is listener "web" itself, which uses this upstream`},
		"no loop: other family":  {withListener(`listen = "tcp://[::]:9000"`), ``},
		"no loop: other network": {withListener(`listen = "udp://127.0.0.1:9000"`), ``},
		"no loop: other port":    {withListener(`listen = "tcp://:9001"`), ``},

		"name":                        {withListener("[listener.\"a:b\"]\nupstream = \"app\""), `f.toml:5:11: listener."a:b": a name has 1 to 255 letters, digits, dashes, underscores and dots (names match FileDescriptorName= of a socket unit)`},
		"longest name":                {withListener("[listener." + strings.Repeat("n", 255) + "]\nupstream = \"app\""), ``},
		"name too long":               {withListener("[listener." + strings.Repeat("n", 256) + "]\nupstream = \"app\""), `a name has 1 to 255 letters`},
		"name empty":                  {withListener("[listener.\"\"]\nupstream = \"app\""), `f.toml:5:11: listener."": a name has`},
		"name with control character": {withListener("[listener.\"a\\u0007\"]\nupstream = \"app\""), `f.toml:5:11: listener."a\a": a name has`},
		"name with dot":               {withListener("[listener.\"a.b\"]\nupstream = \"ap\""), `f.toml:6:1: listener."a.b".upstream: no upstream named "ap"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse("f.toml", c.file)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.Contains(t, err.Error(), c.want)
			assert.Len(t, problemsOf(t, err), 1, "nothing follows from it: %v", err)
		})
	}
}

func TestWhatReachesAListener(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server, listen string
		want           bool
	}{
		{"tcp://127.0.0.1:80", "tcp://127.0.0.1:80", true},
		{"unix:///run/x", "unix:///run/x", true},
		{"unix:///run/x", "unix://@x", false},
		{"tcp://127.0.0.1:80", "unix:///run/x", false},
		{"tcp://127.0.0.1:80", "tcp://127.0.0.2:80", false},
		{"tcp://127.0.0.2:80", "tcp://0.0.0.0:80", true},
		{"tcp://[::1]:80", "tcp://0.0.0.0:80", false},
		{"tcp://[::1]:80", "tcp://[::]:80", true},
		{"tcp://[::1]:80", "tcp://:80", true},
		{"tcp://localhost:80", "tcp://:80", true},
		{"tcp://localhost:80", "tcp://0.0.0.0:80", true},
		{"tcp://localhost:80", "tcp://127.0.0.1:80", true},
		{"tcp://localhost:80", "tcp://192.0.2.1:80", false},
		{"tcp://db.internal:80", "tcp://:80", false},
		{"tcp://192.0.2.1:80", "tcp://:80", false},
	} {
		server, err := ParseAddress(c.server)
		require.NoError(t, err)
		listen, err := ParseAddress(c.listen)
		require.NoError(t, err)
		assert.Equal(t, c.want, reaches(server, listen), "%s at %s", c.server, c.listen)
	}
	assert.False(t, reaches(Address{}, Address{}), "refused values are no addresses")
}

func TestUpstreamsAreEqualOnlyInEverySetting(t *testing.T) {
	t.Parallel()
	load := func(lines string) Upstream {
		c, err := parse("f.toml", withUpstream(lines))
		require.NoError(t, err)
		return c.Upstreams[0]
	}
	const checked = "health = {rise = 3}\n"
	u := load(checked)
	assert.True(t, u.Equal(load(checked)))
	for _, lines := range []string{
		"", "health = {rise = 2}\n", checked + "connect_retry = '1s'\n", checked + "send_proxy = 'v1'\n", checked + "balance = 'random2'\n",
	} {
		assert.False(t, u.Equal(load(lines)), lines)
	}
	u.Servers = append(u.Servers, Address{Network: "tcp", Host: "h", Port: 1})
	v := u
	v.Servers = []Address{u.Servers[1], u.Servers[0]}
	assert.False(t, u.Equal(v), "the order of servers counts")
}
