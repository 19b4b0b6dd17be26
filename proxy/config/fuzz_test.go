package config

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func FuzzParseTOML(f *testing.F) {
	example, err := os.ReadFile("testdata/example.toml")
	require.NoError(f, err)
	f.Add(example)
	for _, seed := range []string{
		"", "\ufeff[global]\r\n", "a.b = 1\n[a]\n", "[[listener]]\n[listener.x]\n", "x = [[[", "x = {a = {b = 1}}",
		"[listener.\"a\\u0000b\"]\nlisten = ''''''", "[upstream.u]\nservers = [true, 1, 2024-01-01, inf]\n",
	} {
		f.Add([]byte(seed))
	}
	fuzzParse(f, "fuzz.toml")
}

func FuzzParseYAML(f *testing.F) {
	f.Add([]byte(minimalYAML))
	for _, seed := range []string{
		"", "---\n", "a: &a [*a]", "a: &a {<<: *a}", "? [x]\n: y", "global: !!binary AA==", "listener:\n  1: {2: 3}\n", "a: 1\n---\nb: 2",
	} {
		f.Add([]byte(seed))
	}
	fuzzParse(f, "fuzz.yaml")
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(minimalJSON))
	for _, seed := range []string{
		"", "null", "[]", `{"a":1,"a":2}`, `{"a":[1,[2,{}]]}`, `{"listener":{"":{}}}`, `{"a":1e999}`, `{"a":"\ud800"}`, "{} x",
	} {
		f.Add([]byte(seed))
	}
	fuzzParse(f, "fuzz.json")
}

// fuzzParse holds for each content: no panic, and either problems that say
// something or a configuration that stands a second look.
func fuzzParse(f *testing.F, name string) {
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(name, data, nil, Overrides{})
		if err != nil {
			assert.Nil(t, c)
			for _, p := range problemsOf(t, err) {
				assert.NotEmpty(t, p.Message)
				assert.NotContains(t, p.String(), "\n", "one line each")
			}
			return
		}
		again := &report{places: places{}}
		validate(again, c)
		require.NoError(t, again.err())
		require.NotEmpty(t, c.Listeners)
	})
}

// FuzzInputs holds for each content of a memory file that says it is ours: it is
// refused or parsed, and writing it again changes nothing.
func FuzzInputs(f *testing.F) {
	golden, err := os.ReadFile("testdata/inputs.json")
	require.NoError(f, err)
	f.Add(golden)
	for _, seed := range []string{
		"", "null", "{}", `{"file":"f.toml","data":"!"}`, `{"file":"f.json","data":"e30="}`, `{"file":"x","missing":true}`,
		`{"environ":["","=","HOLDFAST_="],"overrides":{"listen":[""]}}`, `{"overrides":{"upstream":"h:1"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var in Inputs
		if json.Unmarshal(text, &in) != nil {
			return
		}
		assert.True(t, in.Equal(throughJSON(t, in)))
		if c, err := in.Parse(); err != nil {
			assert.Nil(t, c)
			problemsOf(t, err)
		}
	})
}

func FuzzAddress(f *testing.F) {
	for _, seed := range []string{
		"tcp://127.0.0.1:80", "tcp://[::ffff:1.2.3.4]:0", "tcp://[fe80::1%eth0]:1", "unix:///run/x.sock", "unix://@x",
		":80", "db:5432", "udp://:53", "tcp://a:b:c", "unix://", "@", "", "tcp://DB.:1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAddress(text)
		if err != nil {
			assert.Equal(t, Address{}, a)
			assert.NotEmpty(t, err.Error())
			return
		}
		assert.False(t, strings.ContainsAny(a.String(), "\n\x00"))
		again, err := ParseAddress(a.String())
		require.NoError(t, err)
		assert.Equal(t, a, again, "one spelling")
	})
}
