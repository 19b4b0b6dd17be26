package daemon

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/leaktest"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// The test binary is also the child process of some tests.
var children = map[string]func() error{}

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == ThawCommand {
		pid, err := strconv.Atoi(os.Args[2])
		if err == nil {
			err = Thaw(pid)
		}
		if err != nil {
			os.Exit(1)
		}
		return
	}
	if child := children[os.Getenv("DAEMON_TEST_CHILD")]; child != nil {
		if err := child(); err != nil {
			_, _ = io.WriteString(os.Stderr, err.Error()+"\n")
			os.Exit(1)
		}
		return
	}
	leaktest.Main(m)
}

// patience is how long a test waits for what is due at once.
const patience = 10 * time.Second

var quiet = slog.New(slog.DiscardHandler)

// logBook keeps what is logged, as text.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *logBook) eventually(t *testing.T, text string) {
	t.Helper()
	assert.Eventually(t, func() bool { return strings.Contains(b.String(), text) }, patience, time.Millisecond, "not logged: %s", text)
}

// shortDir is short whatever the test's name: a socket's path holds 107 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "daemon")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// loopback is a free port of this host, or the given one.
func loopback(port uint16) config.Address {
	return config.Address{Network: "tcp", Host: "127.0.0.1", Port: port}
}

// configIn is a config whose own sockets are in dir: one listener on a port that
// the kernel chooses, for a server that is not there.
func configIn(dir string) *config.Config {
	global := config.DefaultGlobal([]string{"RUNTIME_DIRECTORY=" + dir})
	return &config.Config{
		Global:    global,
		Listeners: []config.Listener{{Name: "web", Listen: []config.Address{loopback(0)}, Upstream: "app"}},
		Upstreams: []config.Upstream{{
			Name: "app", Servers: []config.Address{loopback(9)}, Balance: config.RoundRobin, ConnectTimeout: time.Second,
		}},
	}
}

// optionsFor are those of an instance that reads cfg, as far as tests set it. They
// need no file: it is in the environment.
func optionsFor(cfg *config.Config) Options {
	join := func(addresses []config.Address) string {
		var list []string
		for _, a := range addresses {
			list = append(list, a.String())
		}
		return strings.Join(list, ",")
	}
	drain := cfg.Global.DrainTimeout.Duration.String()
	if cfg.Global.DrainTimeout.Never {
		drain = "never"
	}
	environ := []string{
		"HOLDFAST_GLOBAL_CONTROL_SOCKET=" + cfg.Global.ControlSocket,
		"HOLDFAST_GLOBAL_HANDOVER_SOCKET=" + cfg.Global.HandoverSocket,
		"HOLDFAST_GLOBAL_DRAIN_TIMEOUT=" + drain,
	}
	if cfg.Global.Metrics != nil {
		environ = append(environ, "HOLDFAST_GLOBAL_METRICS="+cfg.Global.Metrics.String())
	}
	for _, l := range cfg.Listeners {
		prefix := "HOLDFAST_LISTENER_" + strings.ToUpper(l.Name)
		environ = append(environ, prefix+"_LISTEN="+join(l.Listen), prefix+"_UPSTREAM="+l.Upstream)
	}
	for _, u := range cfg.Upstreams {
		environ = append(environ, "HOLDFAST_UPSTREAM_"+strings.ToUpper(u.Name)+"_SERVERS="+join(u.Servers))
	}
	return Options{Source: config.Source{Environ: environ}, Version: "test"}
}

// running is an instance in this process, with the signals of this process.
type running struct {
	config  *config.Config
	log     logBook
	started time.Time
	ended   chan error
}

// serving runs an instance until the test ends it.
func serving(t *testing.T, cfg *config.Config) *running {
	t.Helper()
	return runningOn(t, cfg, optionsFor(cfg))
}

func runningOn(t *testing.T, cfg *config.Config, options Options) *running {
	t.Helper()
	procs := runtime.GOMAXPROCS(0)
	r := &running{config: cfg, started: time.Now(), ended: make(chan error, 1)}
	signals := catchSignals()
	go func() { r.ended <- serve(options, signals, r.log.logger(), new(slog.LevelVar)) }()
	t.Cleanup(func() {
		signals.release()
		runtime.GOMAXPROCS(procs)
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	return r
}

// signal sends a signal to this process.
func (r *running) signal(t *testing.T, number unix.Signal) {
	t.Helper()
	require.NoError(t, unix.Kill(os.Getpid(), number))
}

func (r *running) status(t *testing.T) status.Status {
	t.Helper()
	s, err := control.NewClient(r.config.Global.ControlSocket).Status(t.Context())
	require.NoError(t, err)
	return s
}

// eventually waits until the instance says that it is in a state.
func (r *running) eventually(t *testing.T, state status.State) {
	t.Helper()
	require.Eventually(t, func() bool {
		s, err := control.NewClient(r.config.Global.ControlSocket).Status(t.Context())
		return err == nil && s.State == state
	}, patience, time.Millisecond, "it is not %s", state)
}

// end waits for the end, which must be a good one, and tells how long it took.
func (r *running) end(t *testing.T) time.Duration {
	t.Helper()
	since := time.Now()
	select {
	case err := <-r.ended:
		require.NoError(t, err)
	case <-time.After(patience):
		require.Fail(t, "it does not end", r.log.String())
	}
	return time.Since(since)
}

// dial connects through the first listener.
func (r *running) dial(t *testing.T) net.Conn {
	t.Helper()
	address := strings.TrimPrefix(r.status(t).Listeners.Sockets[0].Socket, "tcp ")
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// echo is a server that sends back what it gets, until the test ends.
func echo(t *testing.T) config.Address {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			serving.Go(func() {
				// Between plain sockets Copy uses pipes that only the garbage collector closes.
				_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range open { // a manager may keep the other end
			_ = conn.Close()
		}
		serving.Wait()
	})
	return loopback(netip.MustParseAddrPort(l.Addr().String()).Port())
}

func requireEcho(t *testing.T, conn net.Conn) {
	t.Helper()
	require.True(t, assertEcho(t, conn))
}

func assertEcho(t *testing.T, conn net.Conn) bool {
	t.Helper()
	answer := make([]byte, len("hello"))
	err := conn.SetDeadline(time.Now().Add(patience))
	if err == nil {
		_, err = io.WriteString(conn, "hello")
	}
	if err == nil {
		_, err = io.ReadFull(conn, answer)
	}
	return assert.NoError(t, err) && assert.Equal(t, "hello", string(answer))
}

// filesIn lists what is in a directory.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	return files
}

// eventuallyStores waits until a manager keeps so much: what a start or a reload makes
// useless goes after it has been answered.
func eventuallyStores(t *testing.T, m *storetest.Manager, places int, message ...any) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Len(c, storedBy(m), places, message...) }, patience, time.Millisecond)
}

// storedBy are the names of what a manager keeps, without the vault, when no push of it is
// under way any more: each ends with a canary.
func storedBy(m *storetest.Manager) []string {
	isCanary := func(name string) bool { return strings.HasPrefix(name, "canary/") }
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		names := slices.DeleteFunc(m.Names(), vault.IsName)
		if !slices.ContainsFunc(names, isCanary) || time.Now().After(end) {
			return names
		}
	}
}
