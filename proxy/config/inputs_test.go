package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// throughJSON is in as it is after it was kept.
func throughJSON(t *testing.T, in Inputs) Inputs {
	t.Helper()
	text, err := json.Marshal(in)
	require.NoError(t, err)
	var kept Inputs
	require.NoError(t, json.Unmarshal(text, &kept))
	return kept
}

func TestReadKeepAndParseIsLoad(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none.toml")
	listener := []string{"PATH=/bin", "HOLDFAST_LISTENER_A_UPSTREAM=a", "HOLDFAST_UPSTREAM_A_SERVERS=h:1", "RUNTIME_DIRECTORY=/run/a"}
	for name, src := range map[string]Source{
		"file":                {File: write(t, "f.toml", minimalTOML)},
		"file and variables":  {File: write(t, "f.yaml", minimalYAML), Environ: listener},
		"file and flags":      {File: write(t, "f.json", minimalJSON), Overrides: Overrides{Upstream: "h:2", LogLevel: "debug"}},
		"empty file":          {File: write(t, "f.toml", "")},
		"broken file":         {File: write(t, "f.toml", "[global\n")},
		"bad values":          {File: write(t, "f.toml", withGlobal("keep = 'x'")), Environ: []string{"HOLDFAST_X=1"}},
		"no text":             {File: write(t, "f.toml", "\xff\x00")},
		"other extension":     {File: write(t, "f.conf", minimalTOML)},
		"no file":             {Environ: listener},
		"nothing":             {},
		"missing":             {File: missing, Environ: listener},
		"missing, optional":   {File: missing, FileOptional: true, Environ: listener},
		"missing, no other":   {File: missing, FileOptional: true},
		"missing, other kind": {File: missing + ".conf", FileOptional: true, Environ: listener},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, wantErr := Load(src)
			in, err := src.Read(t.Context())
			if err != nil {
				assert.Equal(t, Inputs{}, in)
				assert.Equal(t, wantErr, err)
				return
			}
			got, err := throughJSON(t, in).Parse()
			assert.Equal(t, want, got)
			assert.Equal(t, wantErr, err)
			assert.Equal(t, errors.Is(wantErr, fs.ErrNotExist), errors.Is(err, fs.ErrNotExist))
		})
	}
}

func TestWhatWasReadOutlivesItsFile(t *testing.T) {
	t.Parallel()
	file := write(t, "f.toml", minimalTOML)
	in, err := Source{File: file}.Read(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.Remove(file))
	c, err := in.Parse()
	require.NoError(t, err)
	assert.Equal(t, "web", c.Listeners[0].Name)

	again, err := Source{File: file, FileOptional: true}.Read(t.Context())
	require.NoError(t, err)
	assert.True(t, again.Missing)
	assert.False(t, in.Equal(again))
}

func TestOnlyVariablesThatMatterAreKept(t *testing.T) {
	t.Parallel()
	environ := []string{
		"XDG_RUNTIME_DIR=/run/user/0", "PATH=/bin", "RUNTIME_DIRECTORY=/run/a", "HOLDFAST_GLOBAL_KEEP=listeners", "SECRET=x",
		"HOLDFAST", "HOLDFAST_PORT_80_TCP=tcp://10.0.0.1:80", "HOLDFAST_SERVICE_HOST=10.0.0.1", "HOLDFAST_TEST_BINARY=1",
		"HOLDFAST_BAD=a=b", "INVOCATION_ID=x", "HOLDFAST_", "RUNTIME_DIRECTORY=/run/later",
	}
	in, err := Source{Environ: environ}.Read(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{
		"HOLDFAST_", "HOLDFAST_BAD=a=b", "HOLDFAST_GLOBAL_KEEP=listeners",
		"RUNTIME_DIRECTORY=/run/a", "RUNTIME_DIRECTORY=/run/later", "XDG_RUNTIME_DIR=/run/user/0",
	}, in.Environ, "sorted by name, also bad ones")
	assert.Equal(t, DefaultGlobal(environ), DefaultGlobal(in.Environ))
}

// What a released version may have kept is read by every later one: this file is
// added to, never changed.
func TestKeptInputsAreReadForGood(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/inputs.json")
	require.NoError(t, err)
	var kept []Inputs
	require.NoError(t, json.Unmarshal(text, &kept))
	require.Len(t, kept, 4)

	c, err := kept[0].Parse()
	require.NoError(t, err)
	assert.Equal(t, Global{
		ControlSocket: "/flag/control.sock", HandoverSocket: "/flag/handover.sock", Keep: KeepListeners,
		DrainTimeout: Timeout{Duration: 5 * time.Second}, OnTerm: OnTermAuto, LogLevel: LogDebug,
	}, c.Global)
	assert.Equal(t, []string{"default", "web"}, []string{c.Listeners[0].Name, c.Listeners[1].Name})
	assert.Equal(t, []Address{{Network: "tcp", Port: 1}, {Network: "unix", Path: "/run/x"}}, c.Listeners[0].Listen)
	assert.Equal(t, []Address{{Network: "tcp", Host: "192.0.2.1", Port: 9000}}, c.Upstreams[1].Servers)

	_, err = kept[1].Parse()
	require.EqualError(t, err, "/etc/holdfast/holdfast.toml: no configuration: the file does not exist, "+
		"and no listener is in the environment or the flags (add a [listener.NAME] table, or use --listen and --upstream)")

	c, err = kept[2].Parse()
	require.NoError(t, err, "fields of a later version are ignored")
	assert.True(t, c.Listeners[0].TakesAny())

	c, err = kept[3].Parse()
	require.NoError(t, err)
	assert.Equal(t, []Address{{Network: "unix", Path: "/run/y"}}, c.Listeners[0].Listen)

	for i, in := range kept[:2] {
		again, err := json.MarshalIndent(in, "  ", "  ")
		require.NoError(t, err)
		assert.Contains(t, string(text), string(again), "%d is what this version writes", i)
	}
	for _, field := range changes() {
		assert.Contains(t, string(text), fmt.Sprintf("%q:", field.name), "the file has every field")
	}
}

func TestInputsAreEqualOnlyInEveryField(t *testing.T) {
	t.Parallel()
	assert.True(t, Inputs{}.Equal(Inputs{Data: []byte{}, Environ: []string{}, Overrides: Overrides{Listen: []string{}}}))
	for _, c := range changes() {
		assert.False(t, Inputs{}.Equal(c.in), c.name)
		assert.False(t, c.in.Equal(Inputs{}), c.name)
		assert.True(t, c.in.Equal(throughJSON(t, c.in)), c.name)
	}
}

// change is inputs with one field set, and the name of that field in JSON.
type change struct {
	name string
	in   Inputs
}

func changes() (list []change) {
	fields := reflect.TypeFor[Inputs]()
	for i := range fields.NumField() {
		if fields.Field(i).Type == reflect.TypeFor[Overrides]() {
			inner := fields.Field(i).Type
			for j := range inner.NumField() {
				c := change{name: jsonName(inner.Field(j))}
				set(reflect.ValueOf(&c.in).Elem().Field(i).Field(j))
				list = append(list, c)
			}
			continue
		}
		c := change{name: jsonName(fields.Field(i))}
		set(reflect.ValueOf(&c.in).Elem().Field(i))
		list = append(list, c)
	}
	return list
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// set gives a field a value that is not its zero value.
func set(field reflect.Value) {
	switch v := field.Addr().Interface().(type) {
	case *string:
		*v = "x"
	case *bool:
		*v = true
	case *[]byte:
		*v = []byte("x")
	case *[]string:
		*v = []string{"x"}
	case *map[string][]string:
		*v = map[string][]string{"x": {"x"}}
	default:
		panic("a field of a new kind: " + field.Type().String())
	}
}
