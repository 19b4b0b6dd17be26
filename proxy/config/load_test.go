package config

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// write makes a file in a directory of the test.
func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

func TestServeWithoutAFile(t *testing.T) {
	t.Parallel()
	c, err := Load(Source{
		File: "/nonexistent/holdfast.toml", FileOptional: true,
		Overrides: Overrides{Listen: []string{"tcp://:8080", "unix:///run/x.sock"}, Upstream: "tcp://127.0.0.1:9000"},
	})
	require.NoError(t, err)
	require.Len(t, c.Listeners, 1)
	require.Len(t, c.Upstreams, 1)
	assert.Equal(t, Listener{
		Name: "default", Upstream: "default",
		Listen: []Address{{Network: "tcp", Port: 8080}, {Network: "unix", Path: "/run/x.sock"}},
	}, c.Listeners[0])
	assert.Equal(t, "default", c.Upstreams[0].Name)
	assert.Equal(t, []Address{{Network: "tcp", Host: "127.0.0.1", Port: 9000}}, c.Upstreams[0].Servers)
	assert.False(t, c.Listeners[0].TakesAny(), "it has addresses of its own")
}

func TestUpstreamAloneTakesAnySocketOfAUnit(t *testing.T) {
	t.Parallel()
	c, err := Load(Source{Overrides: Overrides{Upstream: "127.0.0.1:9000"}})
	require.NoError(t, err)
	require.Len(t, c.Listeners, 1)
	assert.Empty(t, c.Listeners[0].Listen)
	assert.True(t, c.Listeners[0].TakesAny())
	assert.False(t, Listener{Name: "web"}.TakesAny(), "a listener of the file waits for its own name")
}

func TestBadFlagsAreNamed(t *testing.T) {
	t.Parallel()
	_, err := Load(Source{Overrides: Overrides{
		Listen: []string{"tcp://:8080", "tcp://h:53"}, ControlSocket: "control.sock", HandoverSocket: "@x", LogLevel: "loud", DrainTimeout: "soon",
	}})
	require.Error(t, err)
	assert.Equal(t, `--control-socket: global.control_socket: the path "control.sock" of the unix socket is relative (it must begin with "/")
--demo: global.drain_timeout: "soon" is not a duration (write a number and h, m, s or ms, such as "1m30s"; the longest is "87600h")
--handover-socket: global.handover_socket: an abstract socket has no owner and no mode (write an absolute path)
--listen: listener.default.listen[1]: a name such as "h" may stand for several addresses, one to listen on is needed (write 127.0.0.1 or [::1] for this host alone, tcp://:PORT for every address)
--listen: listener.default.upstream: is missing (name an [upstream.NAME] table, or use --upstream)
--log-level: global.log_level: unknown value "loud", expected one of "debug", "info", "warn", "error"`, err.Error())
}

func TestListenersHaveAdoptedAddressesBesideTheirOwn(t *testing.T) {
	t.Parallel()
	file := write(t, "f.toml", `
[listener.own]
listen = "tcp://:1"
upstream = "app"
[listener.none]
upstream = "app"
[upstream.app]
servers = "tcp://127.0.0.1:9000"
`)
	c, err := Load(Source{File: file, Overrides: Overrides{Adopted: map[string][]string{
		"own": {"127.0.0.1:2", "tcp://:1"}, "none": {"unix:///run/x"},
	}}})
	require.NoError(t, err)
	assert.Equal(t, []Address{{Network: "unix", Path: "/run/x"}}, c.Listeners[0].Listen)
	assert.Equal(t, []Address{{Network: "tcp", Port: 1}, {Network: "tcp", Host: "127.0.0.1", Port: 2}}, c.Listeners[1].Listen)

	_, err = Load(Source{File: file, Overrides: Overrides{Adopted: map[string][]string{
		"own": nil, "non": nil, "none": {"tcp://:1", "/run/x"},
	}}})
	require.EqualError(t, err, `--listener: no listener named "non" (did you mean "none"?)
--listener: "/run/x" has no scheme (write "unix:///run/x")
`+file+`:3:1: listener.own.listen[0]: tcp://:1 is already listener.none.listen[0] (first at --listener)`)
}

func TestLaterSourcesWin(t *testing.T) {
	t.Parallel()
	file := write(t, "f.toml", `
[global]
control_socket = "/file/control.sock"
log_level = "warn"
drain_timeout = "1s"
[listener.default]
listen = ["tcp://:1", "tcp://:2"]
upstream = "app"
max_connections = 7
[upstream.app]
servers = "tcp://127.0.0.1:9000"
`)
	c, err := Load(Source{
		File:      file,
		Environ:   []string{"HOLDFAST_GLOBAL_LOG_LEVEL=debug", "HOLDFAST_GLOBAL_CONTROL_SOCKET=/env/control.sock", "HOLDFAST_LISTENER_DEFAULT_LISTEN=tcp://:3"},
		Overrides: Overrides{Listen: []string{"tcp://:4"}, ControlSocket: "/flag/control.sock"},
	})
	require.NoError(t, err)
	assert.Equal(t, "/flag/control.sock", c.Global.ControlSocket, "flags over all")
	assert.Equal(t, LogDebug, c.Global.LogLevel, "environment over file")
	assert.Equal(t, time.Second, c.Global.DrainTimeout.Duration, "file over defaults")
	assert.Equal(t, OnTermAuto, c.Global.OnTerm, "defaults")
	assert.Equal(t, []Address{{Network: "tcp", Port: 4}}, c.Listeners[0].Listen, "a list is replaced, not appended to")
	assert.Equal(t, 7, c.Listeners[0].MaxConnections, "the rest of the table stays")
}

func TestTheLogLevelAndTheDrainTimeoutOfTheCommandLineWin(t *testing.T) {
	t.Parallel()
	c, err := Load(Source{
		File:      write(t, "f.toml", withGlobal("log_level = 'error'\ndrain_timeout = '5s'\n")),
		Environ:   []string{"HOLDFAST_GLOBAL_LOG_LEVEL=warn", "HOLDFAST_GLOBAL_DRAIN_TIMEOUT=never"},
		Overrides: Overrides{LogLevel: "debug", DrainTimeout: "0"},
	})
	require.NoError(t, err)
	assert.Equal(t, LogDebug, c.Global.LogLevel)
	assert.Equal(t, Timeout{}, c.Global.DrainTimeout)
}

func TestAMissingFile(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none.toml")
	listener := []string{"HOLDFAST_LISTENER_A_UPSTREAM=a", "HOLDFAST_UPSTREAM_A_SERVERS=h:1"}

	for name, src := range map[string]Source{
		"named":                     {File: missing, Environ: listener},
		"optional, nothing else":    {File: missing, FileOptional: true},
		"optional, only an address": {File: missing, FileOptional: true, Environ: []string{"HOLDFAST_UPSTREAM_A_SERVERS=h:1"}},
		"no file, nothing else":     {},
	} {
		_, err := Load(src)
		require.Error(t, err, name)
		assert.ErrorIs(t, err, fs.ErrNotExist, name)
		assert.Len(t, problemsOf(t, err), 1, name)
		if src.File != "" {
			assert.Contains(t, err.Error(), missing, name)
		}
	}

	c, err := Load(Source{File: missing, FileOptional: true, Environ: listener})
	require.NoError(t, err)
	assert.Equal(t, "a", c.Listeners[0].Name)
}

func TestStatesOfAFile(t *testing.T) {
	t.Parallel()
	long := minimalTOML + strings.Repeat("#", maxSize-len(minimalTOML))
	for name, c := range map[string]struct{ file, content, want string }{
		"empty":              {"f.toml", "", "no listener is configured"},
		"empty YAML":         {"f.yaml", "", "no listener is configured"},
		"empty JSON":         {"f.json", " \n", "no listener is configured"},
		"comments only":      {"f.yml", "# nothing\n", "no listener is configured"},
		"as large as it may": {"f.toml", long, ""},
		"too large":          {"f.toml", long + "#", "is larger than 4 MiB"},
		"byte order mark":    {"f.toml", "\ufeff" + minimalTOML, ""},
		"mark in YAML":       {"f.yaml", "\ufeff" + minimalYAML, ""},
		"mark in JSON":       {"f.json", "\ufeff" + minimalJSON, ""},
		"CRLF":               {"f.toml", strings.ReplaceAll(minimalTOML, "\n", "\r\n"), ""},
		"CRLF in YAML":       {"f.yaml", strings.ReplaceAll(minimalYAML, "\n", "\r\n"), ""},
		"CRLF in JSON":       {"f.json", strings.ReplaceAll(minimalJSON, "\n", "\r\n"), ""},
		"CRLF keeps lines":   {"f.toml", "[global]\r\n\r\nkeep = 'x'\r\n", ":3:1: global.keep: unknown value"},
		"binary":             {"f.toml", "\x7fELF\x02\x01\x01\x00\x00", ":1:8: is not a text file"},
		"UTF-16":             {"f.json", "\xff\xfe{\x00}\x00", ":1:1: is not a text file"},
		"Latin-1":            {"f.yaml", "# ok\n# f\xfcr\n", ":2:4: is not a text file"},
		"other extension":    {"f.conf", minimalTOML, `unknown format: the extension is ".conf" (it must be .toml, .yaml, .yml or .json)`},
		"no extension":       {"holdfast", minimalTOML, `unknown format: the extension is ""`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := write(t, c.file, c.content)
			loaded, err := Load(Source{File: file})
			if c.want == "" {
				require.NoError(t, err)
				assert.Equal(t, "web", loaded.Listeners[0].Name)
				return
			}
			require.Error(t, err)
			assert.Contains(t, err.Error(), c.want)
			assert.Contains(t, err.Error(), file)
			assert.Len(t, problemsOf(t, err), 1)
		})
	}
}

func TestADirectoryIsNoFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d.toml")
	require.NoError(t, os.Mkdir(dir, 0o700))
	_, err := Load(Source{File: dir, FileOptional: true})
	require.ErrorIs(t, err, syscall.EISDIR)
	assert.Equal(t, dir+": cannot read: is a directory", err.Error())
}

func TestAnUnreadableFileIsAPermissionError(t *testing.T) {
	file := write(t, "f.toml", minimalTOML)
	require.NoError(t, os.Chmod(file, 0))
	if os.Getuid() == 0 {
		// Root may read everything; the process, in which no other test runs now, gives
		// that up for a while.
		require.NoError(t, syscall.Setresuid(-1, 65534, -1))
		defer func() { assert.NoError(t, syscall.Setresuid(-1, 0, -1)) }()
	}
	_, err := Load(Source{File: file, FileOptional: true})
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorIs(t, fmt.Errorf("serve: %w", err), fs.ErrPermission)
	assert.Equal(t, file+": cannot read: permission denied", err.Error())
}

func TestAPipeIsReadLikeAFile(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "p.toml")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte(minimalTOML), 0) }() // ends when the pipe was read
	_, err := Load(Source{File: pipe})
	require.NoError(t, err)
	require.NoError(t, <-written)
}

func TestAPipeToWhichNobodyWritesIsGivenUp(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "p.toml")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for range 2 * cap(reads) { // also when all of the attempts hang
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := Source{File: pipe, FileOptional: true}.Read(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Contains(t, err.Error(), pipe)
		assert.NotEmpty(t, problemsOf(t, err)[0].Hint)
	}
	assert.Eventually(t, func() bool { // the attempts end when the pipe does
		writer, err := os.OpenFile(pipe, os.O_RDWR, 0)
		return err == nil && writer.Close() == nil && len(reads) == 0
	}, 10*time.Second, time.Millisecond)
}

func TestParseReadsNoFile(t *testing.T) {
	t.Parallel()
	c, err := Parse("/nonexistent/kept.toml", []byte(minimalTOML), []string{"HOLDFAST_GLOBAL_ACCESS_LOG=true"}, Overrides{})
	require.NoError(t, err)
	assert.True(t, c.Global.AccessLog)
}

func TestAThousandListenersLoadAtOnce(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "[listener.l%d]\nlisten = [\"tcp://127.0.0.1:%d\", \"tcp://[::1]:%d\"]\nupstream = \"u%d\"\n", i, 10000+i, 10000+i, i)
		fmt.Fprintf(&b, "[upstream.u%d]\nservers = \"tcp://127.0.0.1:%d\"\n", i, 20000+i)
	}
	start := time.Now()
	c, err := parse("f.toml", b.String())
	require.NoError(t, err)
	assert.Len(t, c.Listeners, 1000)
	assert.Less(t, time.Since(start), 20*time.Second)
}

func TestListenersAreSortedByName(t *testing.T) {
	t.Parallel()
	c, err := parse("f.toml", "listener.b.upstream = 'z'\nlistener.a.upstream = 'y'\nupstream.z.servers = 'h:1'\nupstream.y.servers = 'h:1'\n")
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, []string{c.Listeners[0].Name, c.Listeners[1].Name})
	assert.Equal(t, []string{"y", "z"}, []string{c.Upstreams[0].Name, c.Upstreams[1].Name})
}

func TestNoConfigWithoutAnError(t *testing.T) {
	t.Parallel()
	c, err := parse("f.toml", "x = 1")
	assert.Nil(t, c)
	assert.ErrorAs(t, err, new(*Error))
}
