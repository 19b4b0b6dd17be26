package daemon

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

func TestControlSocketIsForItsUserOnly(t *testing.T) {
	before := unix.Umask(0) // the modes must not depend on it
	defer unix.Umask(before)
	path := filepath.Join(shortDir(t), "made", "control.sock")
	l, err := listenControl(path)
	require.NoError(t, err)

	info, err := os.Lstat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.ModeSocket|0o600, info.Mode())
	info, err = os.Lstat(filepath.Dir(path))
	require.NoError(t, err)
	assert.Equal(t, fs.ModeDir|0o700, info.Mode())

	require.NoError(t, l.Close())
	assert.NoFileExists(t, path)
}

func TestControlSocketThatCannotBe(t *testing.T) {
	dir := shortDir(t)
	taken := filepath.Join(dir, "taken")
	l, err := listenControl(taken)
	require.NoError(t, err)
	defer l.Close()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	comm, err := os.ReadFile("/proc/self/comm")
	require.NoError(t, err)

	for path, want := range map[string]struct {
		is         error
		text, hint string
	}{
		taken: {
			unix.EADDRINUSE, fmt.Sprintf("in use by process %d (%s)", os.Getpid(), comm[:len(comm)-1]),
			"stop that instance, or choose another path with --control-socket",
		},
		file:                         {nil, "the path exists and is not a socket", "remove it or choose another path"},
		dir + "/a/b/control.sock":    {fs.ErrNotExist, "mkdir " + dir + "/a/b: no such file or directory", ""},
		file + "/control.sock":       {unix.ENOTDIR, "not a directory", ""},
		"/sys/kernel/x/control.sock": {nil, "mkdir /sys/kernel/x: ", ""},
	} {
		_, err := listenControl(path)
		var failed *AskError
		require.ErrorAs(t, err, &failed, path)
		require.ErrorContains(t, err, "control socket "+path+": ")
		require.ErrorContains(t, err, want.text)
		assert.Equal(t, want.hint, failed.Hint, path)
		if want.is != nil {
			assert.ErrorIs(t, err, want.is)
		}
	}
}

func TestTheInstanceCanBeAskedOverBothWays(t *testing.T) {
	cfg := configIn(shortDir(t))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	metrics, err := config.ParseAddress("tcp://" + l.Addr().String())
	require.NoError(t, err)
	cfg.Global.Metrics = &metrics

	for range 2 { // the second start finds the port in TIME_WAIT
		r := serving(t, cfg)
		r.eventually(t, status.Running)
		client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
		var code int
		assert.Eventually(t, func() bool {
			response, err := client.Get("http://" + l.Addr().String() + "/ready")
			if err != nil {
				return false
			}
			code = response.StatusCode
			return response.Body.Close() == nil
		}, patience, time.Millisecond)
		assert.Equal(t, http.StatusOK, code)
		r.signal(t, unix.SIGTERM)
		r.end(t)
	}
}

func TestTrafficGoesOnWhenNobodyCanAskAnyMore(t *testing.T) {
	cfg := configIn(shortDir(t))
	cfg.Upstreams[0].Servers = []config.Address{echo(t)}
	var book logBook
	d, err := start(t.Context(), optionsFor(cfg), book.logger(), new(slog.LevelVar))
	require.NoError(t, err)
	signals := &signals{stop: make(chan string, 1), until: t.Context()}
	ended := make(chan struct{})
	go func() {
		d.run(signals)
		close(ended)
	}()
	control := d.current.asks.control
	control.stop() // it would not end like this by itself
	<-control.closed
	d.failures <- failure{control, net.ErrClosed}
	book.eventually(t, "cannot be asked any more")
	r := &running{config: cfg}
	r.eventually(t, status.Running) // it is made again
	requireEcho(t, r.dial(t))
	signals.stop <- "SIGTERM"
	signals.stop <- "SIGTERM"
	<-ended
}

func TestAControlSocketWhoseFileIsGoneIsMadeAgain(t *testing.T) {
	s := newSite(t)
	r := s.serving(t)
	require.NoError(t, os.Remove(r.config.Global.ControlSocket))
	r.eventually(t, status.Running)
	r.stop(t)
	assert.NoFileExists(t, r.config.Global.ControlSocket)
}

func TestAMetricsAddressMayGrow(t *testing.T) {
	s := newSite(t)
	port := freeAddress(t)
	port = port[strings.LastIndex(port, ":"):]
	s.global = []string{"metrics = 'tcp://127.0.0.1" + port + "'"}
	r := s.serving(t)
	s.global = []string{"metrics = 'tcp://0.0.0.0" + port + "'"}
	s.write(t)
	_, err := r.reload(t)
	require.NoError(t, err)
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://127.0.0.2" + port + "/metrics")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusOK, response.StatusCode)
	r.stop(t)
}
