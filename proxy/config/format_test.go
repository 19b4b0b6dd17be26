package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	minimalTOML = `
[listener.web]
listen = "tcp://:8080"
upstream = "app"
[upstream.app]
servers = "tcp://127.0.0.1:9000"
`
	minimalYAML = `
listener:
  web: {listen: "tcp://:8080", upstream: app}
upstream:
  app: {servers: "tcp://127.0.0.1:9000"}
`
	minimalJSON = `{
  "listener": {"web": {"listen": "tcp://:8080", "upstream": "app"}},
  "upstream": {"app": {"servers": "tcp://127.0.0.1:9000"}}
}`
)

// Each case is one file and the whole text of its error: places, order, hints.
func TestProblemsOfAFileHaveTheirPlaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, content, want string }{
		"TOML syntax":         {"f.toml", "[global]\nlog_level = [}\n", "f.toml:2:14: incomplete number"},
		"TOML text":           {"f.toml", "[global]\nlog_level = é\n", "f.toml:2:13: incomplete number (a text needs quotes)"},
		"TOML address":        {"f.toml", "[listener.web]\nlisten=tcp://:8080\n", "f.toml:2:8: expected 'true' (a text needs quotes)"},
		"TOML name":           {"f.toml", "[listener.web]\nupstream = app\n", "f.toml:2:12: incomplete number (a text needs quotes)"},
		"TOML cut short":      {"f.toml", "[upstream.app]\nservers = [\"a\",\n", "f.toml:3:1: expected value, not eof"},
		"TOML key twice":      {"f.toml", "[global]\nkeep = \"x\"\nkeep = \"y\"\n", "f.toml:3:1: global.keep: is defined twice (first at f.toml:2:1)"},
		"TOML table twice":    {"f.toml", "[global]\n[global]\n", "f.toml:2:2: global: is defined twice (first at f.toml:1:2)"},
		"TOML dots, then [a]": {"f.toml", "a.b = 1\n[a]\n", "f.toml:2:2: a: is defined twice (first at f.toml:1:1)"},
		"TOML value, then [a.b]": {
			"f.toml", "a = 1\n[a.b]\n", "f.toml:2:2: a: is defined twice (first at f.toml:1:1)",
		},
		"TOML [a.b], then dots": {
			"f.toml", "[a.b]\n[a]\nb.c = 1\n", "f.toml:3:1: a.b: is defined twice (first at f.toml:1:4)",
		},
		"TOML inline table": {"f.toml", "a = {b = 1, b.c = 2}\n", "f.toml:1:13: a.b: is defined twice (first at f.toml:1:6)"},
		"TOML array of tables": {
			"f.toml", "[[listener]]\nname = 1\n[[listener]]\nname = 2\n",
			"f.toml:1:3: listener: expected a table, found a list of tables (write [listener.NAME])\n" +
				"f.toml:3:3: listener: expected a table, found a list of tables (write [listener.NAME])",
		},
		"TOML octal":     {"f.toml", "a = 017\n", "f.toml:1:6: expected newline but got U+0031 '1'"},
		"TOML no number": {"f.toml", "a = 1-7\n", "f.toml:1:1: a: \"1-7\" is not a number"},
		"columns count characters": {
			"f.toml", "global = {\"ключ\" = 1, keep = \"no\"}\n",
			"f.toml:1:11: global.\"ключ\": unknown key (known are: \"access_log\", \"control_socket\", \"drain_timeout\", \"exit_idle\", \"handover_socket\", \"keep\", \"log_level\", \"metrics\", \"on_term\")\n" +
				"f.toml:1:23: global.keep: unknown value \"no\", expected one of \"connections\", \"listeners\"",
		},
		"YAML syntax":         {"f.yaml", "global:\n  keep: x\n bad: y\n", "f.yaml:2: did not find expected key"},
		"YAML key twice":      {"f.yaml", "global:\n  keep: x\n  keep: y\n", "f.yaml:3:3: global.keep: is defined twice (first at f.yaml:2:3)"},
		"YAML list at top":    {"f.yml", "- a\n", "f.yml:1:1: expected keys with values at the top"},
		"YAML two documents":  {"f.yaml", "{}\n---\n{}\n", "f.yaml:2:1: holds more than one YAML document"},
		"YAML key of no text": {"f.yaml", "? [a]\n: b\n", "f.yaml:1:3: a key must be plain text"},
		"YAML bad tag":        {"f.yaml", "global: {keep: !!int x}\n", "f.yaml:1:16: global.keep: the value does not fit its tag \"!!int\""},
		"YAML alias of itself": {
			"f.yaml", "a: &a {b: *a}\n", "f.yaml:1:11: is nested more than 16 deep",
		},
		"YAML unknown alias": {"f.yaml", "a: *b\n", "f.yaml: unknown anchor 'b' referenced"},
		"JSON syntax":        {"f.json", "{\"global\": {\"keep\": 5, }}", "f.json:1:24: invalid character '}'"},
		"JSON cut short":     {"f.json", "{\"global\": {\"keep\": 5", "f.json:1:22: the file ends before the value does"},
		"JSON key twice":     {"f.json", "{\"a\": 1,\n \"a\": 2}", "f.json:2:2: a: is defined twice (first at f.json:1:2)"},
		"JSON list at top":   {"f.json", "[]", "f.json:1:1: expected an object at the top"},
		"JSON after the end": {"f.json", "{} {}", "f.json:1:4: expected the end of the file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(c.file, c.content)
			require.Error(t, err)
			assert.Contains(t, err.Error(), c.want)
			assert.Len(t, problemsOf(t, err), 1+strings.Count(c.want, "\n"))
		})
	}
}

// The same mistakes are found in all formats, each where it stands.
func TestWrongKindsHaveTheirPlaces(t *testing.T) {
	t.Parallel()
	want := []string{
		`global.drain_timeout: expected a duration such as "60s", found the number 60 (write "60s")`,
		`global.exit_idle: expected a duration such as "60s", found the number 0 (write "0")`,
		`global.access_log: expected true or false, found the string "true"`,
		`global.keep: expected a string, found a list`,
		`global.log_level: expected a string, found the number 1.5`,
		`global.log_lvl: unknown key (did you mean "log_level"?)`,
		`listener.a.max_connections: expected a whole number, found true`,
		`listener.a.listen[1]: expected a string, found the number 8080`,
		`listener.a.trusted: expected a string or a list of strings, found a table`,
		`listener.b: expected a table, found the number 5`,
	}
	for _, f := range []struct {
		name, content string
		columns       []int // of line 2 and the following
	}{
		{"f.toml", `[global]
drain_timeout = 60
exit_idle = 0
access_log = "true"
keep = []
log_level = 1.5
log_lvl = "info"
[listener]
a.max_connections = true
a.listen = ["tcp://:1", 8080]
a.trusted = {}
b = 5
a.upstream = "u"
[upstream.u]
servers = "tcp://h:1"
`, []int{1, 1, 1, 1, 1, 1, 3, 25, 3, 1}},
		{"f.yaml", `global:
  drain_timeout: 60
  exit_idle: 0
  access_log: "true"
  keep: []
  log_level: 1.5
  log_lvl: info
listener: {a: {
   max_connections: true,
   listen: ["tcp://:1", 8080],
   trusted: {}, upstream: u},
 b: 5}
upstream: {u: {servers: "tcp://h:1"}}
`, []int{3, 3, 3, 3, 3, 3, 4, 25, 4, 2}},
		{"f.json", `{"global": {
 "drain_timeout": 60,
 "exit_idle": 0,
 "access_log": "true",
 "keep": [],
 "log_level": 1.5,
 "log_lvl": "info"},
 "listener": {"a": {"upstream": "u",
  "max_connections": true,
  "listen": ["tcp://:1", 8080],
  "trusted": {}},
 "b": 5}, "upstream": {"u": {"servers": "tcp://h:1"}}
}`, []int{2, 2, 2, 2, 2, 2, 3, 26, 3, 2}},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(f.name, f.content)
			require.Error(t, err)
			var lines []string
			for i, column := range f.columns {
				line := i + 2
				if i >= 6 {
					line++
				}
				lines = append(lines, fmt.Sprintf("%s:%d:%d: %s", f.name, line, column, want[i]))
			}
			assert.Equal(t, strings.Join(lines, "\n"), err.Error())
		})
	}
}

func TestYAMLAnchorsWork(t *testing.T) {
	t.Parallel()
	c, err := parse("f.yaml", `
listener:
  a: {listen: tcp://:1, upstream: u, trusted: &net [10.0.0.0/8], accept_proxy: true}
  b: {listen: tcp://:2, upstream: u, trusted: *net, accept_proxy: true}
upstream: {u: {servers: tcp://h:1}}
`)
	require.NoError(t, err)
	assert.Equal(t, c.Listeners[0].Trusted, c.Listeners[1].Trusted)
}

func TestEmptyHeadingsAreEmptyTables(t *testing.T) {
	t.Parallel()
	c, err := parse("f.yaml", "global:\n"+minimalYAML)
	require.NoError(t, err)
	assert.Equal(t, DefaultGlobal(nil), c.Global)
}

// Files that are made to cost time or memory end as one problem, and soon.
func TestHostileFilesEndSoon(t *testing.T) {
	t.Parallel()
	const much = 1 << 18
	many := func(format string) string {
		var b strings.Builder
		for i := range much / 16 {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, f := range map[string]struct{ file, content string }{
		"TOML brackets":   {"f.toml", "x = " + strings.Repeat("[", much)},
		"TOML dots":       {"f.toml", "x" + strings.Repeat(".a", much) + " = 1"},
		"TOML inner dots": {"f.toml", "x = [{x" + strings.Repeat(".a", much) + " = 1}]"},
		"TOML keys":       {"f.toml", many("k%d = 1\n")},
		"YAML brackets":   {"f.yaml", "x: " + strings.Repeat("[", much)},
		"YAML dashes":     {"f.yaml", strings.Repeat("- ", much)},
		"YAML keys":       {"f.yaml", many("k%d: 1\n")},
		"YAML aliases": {"f.yaml", `
a: &a [x, x, x, x, x, x, x, x, x, x]
b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]
c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]
d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]
e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]
f: [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]
`},
		"JSON brackets": {"f.json", strings.Repeat("[", much)},
		"JSON objects":  {"f.json", strings.Repeat(`{"a":`, much)},
		"JSON keys":     {"f.json", "{" + many(`"k%d": 1,`) + `"k": 1}`},
		"long key":      {"f.toml", strings.Repeat("k", much) + " = 1"},
		"long value":    {"f.toml", "[global]\nkeep = '" + strings.Repeat("k", much) + "'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(f.file, f.content)
			require.Error(t, err)
			assert.Less(t, len(err.Error()), 64<<10)
			assert.LessOrEqual(t, len(problemsOf(t, err)), maxProblems+1)
		})
	}
}
