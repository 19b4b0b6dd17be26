package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// others are programs that know nothing of Holdfast, each at four addresses. They answer
// "theirs".
var others = map[string]struct {
	start  func(t testing.TB, config string) *testbed.Process
	config string // with %[1]s to %[3]s for addresses of TCP and %[4]s for a path
	stop   string // ends it in order

	removesPath bool // of the Unix socket, when it is to stop
}{
	"nginx": {
		start: testbed.StartNginx, stop: "QUIT", removesPath: true,
		config: `
worker_processes 2;
events { worker_connections 1024; }
http {
	access_log off;
	server {
		listen %[1]s backlog=4096;
		listen %[2]s backlog=4096;
		listen %[3]s reuseport;
		listen unix:%[4]s;
		return 200 theirs;
	}
}`,
	},
	"haproxy": {
		start: testbed.StartHAProxy, stop: "sigusr1",
		config: `
global
	nbthread 2
defaults
	mode http
	timeout client 60s
	timeout server 60s
	timeout connect 60s
frontend theirs
	bind %[1]s backlog 4096
	bind %[2]s backlog 4096
	bind %[3]s shards by-thread
	bind unix@%[4]s
	http-request return status 200 content-type text/plain string theirs
`,
	},
}

// adoptable is another program at work, and the route that is to take its place, to a
// server that answers "ours".
type adoptable struct {
	*testbed.Process
	testbed.Route
	tcp    []string
	unix   string
	served *atomic.Int64
}

func startOther(t *testing.T, name string) *adoptable {
	t.Helper()
	o := &adoptable{unix: "unix://" + filepath.Join(testbed.Dir(t), "x.sock"), served: &atomic.Int64{}}
	o.tcp = []string{testbed.TCP(t), fmt.Sprintf("tcp://[::1]:%d", testbed.Port(t)), testbed.TCP(t)}
	var places []any
	for _, a := range append(o.tcp, o.unix) {
		places = append(places, testbed.HostPort(a))
	}
	o.Process = others[name].start(t, fmt.Sprintf(others[name].config, places...))
	for _, a := range append(o.tcp, o.unix) {
		testbed.Listening(t, a)
	}
	server := testbed.TCP(t)
	network, address := testbed.Split(server)
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // for this test
		o.served.Add(1)
		_, _ = io.WriteString(w, "ours")
	})}
	t.Cleanup(func() { _ = web.Close() })
	go func() { _ = web.Serve(l) }() // ends with Close
	o.Route = testbed.Route{Name: "web", Listen: append(o.tcp, o.unix), Servers: []string{server}}
	return o
}

// adopt starts an instance with the sockets of a process.
func adopt(t *testing.T, cfg testbed.Config, pid int, flags ...string) *testbed.Holdfast {
	t.Helper()
	script := fmt.Sprintf(`shift 2; exec "$0" adopt --pid %d %s "$@"`, pid, strings.Join(flags, " "))
	return testbed.StartHoldfastUnder(t, cfg, "sh", "-c", script, testbed.Binary)
}

// refusedAdoption is what an adoption says that does not come to be.
func refusedAdoption(t *testing.T, code int, cfg string, flags ...string) string {
	t.Helper()
	file := filepath.Join(testbed.Dir(t), "holdfast.toml")
	require.NoError(t, os.WriteFile(file, []byte(cfg), 0o644))
	cmd := exec.Command(testbed.Binary, append([]string{"adopt", "--config", file}, flags...)...)
	return failed(t, code, cmd, filepath.Dir(file))
}

func failed(t *testing.T, code int, cmd *exec.Cmd, runtime string) string {
	t.Helper()
	cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+runtime)
	said, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, code, cmd.ProcessState.ExitCode(), "%s", said)
	return string(said)
}

// web is a listener's configuration, for a server that is not there.
func web(listen string) string {
	return fmt.Sprintf("[listener.web]\nlisten = %q\nupstream = 'app'\n[upstream.app]\nservers = 'tcp://127.0.0.1:9'\n", listen)
}

// wrkUntil is wrk at an address, each request over a connection of its own, until it is
// told to stop. Then no request may have failed.
func wrkUntil(t *testing.T, address string) (stop func()) {
	t.Helper()
	wrk := exec.Command(testbed.Command(t, "wrk"), "-t1", "-c8", "-d300s", "--timeout", "30s", "-H", "Connection: close",
		"http://"+testbed.HostPort(address)+"/")
	var out bytes.Buffer
	wrk.Stdout = &out
	wrk.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, wrk.Start())
	t.Cleanup(func() { _ = wrk.Process.Kill() })
	return func() {
		require.NoError(t, wrk.Process.Signal(unix.SIGINT))
		require.NoError(t, wrk.Wait())
		assert.Contains(t, out.String(), "Requests/sec")
		assert.NotContains(t, out.String(), "errors", address)
		assert.NotContains(t, out.String(), "Non-2xx", address)
	}
}

// unixLoad is the same for a Unix socket, which wrk does not know. It counts those who
// found no path, and for how long one client at most found none.
type unixLoad struct {
	cancel  context.CancelFunc
	clients sync.WaitGroup
	noPath  atomic.Int64

	mu      sync.Mutex
	without time.Duration
}

// back is the longest time that a path may be missing: it takes a millisecond, and on a
// busy host as long as the scheduler lets others run.
const back = 5 * time.Second

func loadUnix(t *testing.T, address string) *unixLoad {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	u := &unixLoad{cancel: cancel}
	t.Cleanup(u.stop)
	for range 4 {
		u.clients.Go(func() {
			since := time.Now() // of the last that found it
			for ctx.Err() == nil {
				_, err := get(address)
				if errors.Is(err, unix.ENOENT) {
					u.noPath.Add(1)
					u.missed(time.Since(since))
					continue
				}
				since = time.Now()
				assert.NoError(t, err)
			}
		})
	}
	return u
}

// missed notes for how long a client has found no path.
func (u *unixLoad) missed(d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.without = max(u.without, d)
}

func (u *unixLoad) stop() {
	u.cancel()
	u.clients.Wait()
}

// get is who answers a request over a connection of its own.
func get(address string) (string, error) {
	conn, err := testbed.Dial(address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	if err == nil && !strings.Contains(head, " 200 ") {
		err = fmt.Errorf("no answer: %q", answer)
	}
	return body, err
}

// answers waits until a program answers at an address.
func answers(t *testing.T, who, address string) {
	t.Helper()
	testbed.Eventually(t, patience, who+" at "+address, func() bool {
		body, err := get(address)
		require.NoError(t, err)
		return body == who
	})
}

func onlyOurs(t *testing.T, o *adoptable) {
	t.Helper()
	for _, a := range o.Listen {
		for range 20 {
			body, err := get(a)
			require.NoError(t, err)
			require.Equal(t, "ours", body, a)
		}
	}
}

func TestAdoptTakesThePlaceOfAnotherProgram(t *testing.T) {
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			o := startOther(t, name)
			var stops []func()
			for _, a := range o.tcp {
				stops = append(stops, wrkUntil(t, a))
			}
			atPath := loadUnix(t, o.unix)
			holdfast := adopt(t, testbed.Config{Routes: []testbed.Route{o.Route}}, o.Pid(), "--stop="+other.stop)
			assert.Zero(t, o.ExitCode(t, patience))
			onlyOurs(t, o)
			now := holdfast.Status(t)
			assert.Contains(t, now.Handover.Last, "("+name+")")
			require.Len(t, now.Listeners.Sockets, 5, "two share an address")
			for _, s := range now.Listeners.Sockets {
				assert.Equal(t, "pidfd", s.Origin, s.Socket)
			}
			testbed.Eventually(t, patience, "it says that the other program has ended", func() bool {
				return bytes.Contains(holdfast.Log(), []byte("the other program has ended"))
			})

			upgrade(t, holdfast)
			assert.Zero(t, holdfast.ExitCode(t, patience))
			testbed.Run(t, testbed.Program{Path: testbed.Binary, Args: []string{"reload", "--control-socket", holdfast.Control}})
			onlyOurs(t, o)
			for _, stop := range stops {
				stop()
			}
			atPath.stop()
			t.Logf("%d served, %d found no path, in %v", o.served.Load(), atPath.noPath.Load(), atPath.without)
			if other.removesPath {
				assert.Less(t, atPath.without, back, "the path comes back")
			} else {
				assert.Zero(t, atPath.noPath.Load())
			}
			left, err := os.ReadDir(filepath.Dir(testbed.HostPort(o.unix)))
			require.NoError(t, err)
			assert.Len(t, left, 1, "the path")
			pid := holdfast.Status(t).PID
			require.NoError(t, unix.Kill(pid, unix.SIGTERM))
			testbed.Eventually(t, patience, "it removes the path at its end", func() bool {
				_, err := os.Lstat(testbed.HostPort(o.unix))
				return os.IsNotExist(err)
			})
		})
	}
}

func TestAdoptServesBesideAnotherProgramAndLeavesIt(t *testing.T) {
	for name := range others {
		t.Run(name, func(t *testing.T) {
			o := startOther(t, name)
			var stops []func()
			for _, a := range o.tcp {
				stops = append(stops, wrkUntil(t, a))
			}
			atPath := loadUnix(t, o.unix)
			cfg := testbed.Config{Routes: []testbed.Route{o.Route}}
			holdfast := adopt(t, cfg, o.Pid())
			for _, a := range o.Listen {
				answers(t, "ours", a)
				answers(t, "theirs", a)
			}
			last := upgrade(t, holdfast)
			assert.Zero(t, holdfast.ExitCode(t, patience))
			require.NoError(t, unix.Kill(last.pid, unix.SIGTERM))
			assert.Zero(t, last.awaitEnd(t))
			for _, a := range o.Listen {
				answers(t, "theirs", a)
			}
			for _, stop := range stops {
				stop()
			}
			atPath.stop()
			assert.Zero(t, atPath.noPath.Load())
			assert.False(t, o.Ended())
		})
	}
}

func TestAdoptGivesAListenerTheSocketThatItIsTold(t *testing.T) {
	o := startOther(t, "nginx")
	free := testbed.TCP(t)
	cfg := testbed.Config{Routes: []testbed.Route{
		{Name: "web", Servers: o.Servers},
		{Name: "own", Listen: []string{free}, Servers: o.Servers},
	}}
	holdfast := adopt(t, cfg, o.Pid(), "--listener=web="+o.unix, "--listener=web="+testbed.HostPort(o.tcp[0]))
	origins := map[string]string{}
	for _, s := range holdfast.Status(t).Listeners.Sockets {
		origins[s.Socket] = s.Names[0] + " " + s.Origin
	}
	assert.Equal(t, map[string]string{
		"unix " + testbed.HostPort(o.unix):  "web pidfd",
		"tcp " + testbed.HostPort(o.tcp[0]): "web pidfd",
		"tcp " + testbed.HostPort(free):     "own bind",
	}, origins)
	testbed.Run(t, testbed.Program{Path: testbed.Binary, Args: []string{"reload", "--control-socket", holdfast.Control}})
	assert.Len(t, holdfast.Status(t).Listeners.Sockets, 3)
	holdfast.Stop()
	answers(t, "theirs", o.unix)
	answers(t, "theirs", o.tcp[0])
}

func TestALetGoListenerIsLeftToTheOtherProgram(t *testing.T) {
	o := startOther(t, "nginx")
	holdfast := adopt(t, testbed.Config{Routes: []testbed.Route{o.Route}}, o.Pid())
	answers(t, "ours", o.tcp[0])
	answers(t, "ours", o.unix)
	file := filepath.Join(filepath.Dir(holdfast.Control), "holdfast.toml")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	fewer := bytes.Replace(content, []byte(`"`+o.tcp[0]+`", `), nil, 1)
	fewer = bytes.Replace(fewer, []byte(`, "`+o.unix+`"`), nil, 1)
	require.NoError(t, os.WriteFile(file, fewer, 0o600))
	testbed.Run(t, testbed.Program{Path: testbed.Binary, Args: []string{"reload", "--control-socket", holdfast.Control}})
	for _, a := range []string{o.tcp[0], o.unix} {
		for range 20 {
			body, err := get(a)
			require.NoError(t, err)
			require.Equal(t, "theirs", body)
		}
	}
	answers(t, "ours", o.tcp[1])
}

func TestAnAdoptionOutlivesAKillUnderAKeeper(t *testing.T) {
	withoutBus(t)
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			o := startOther(t, name)
			script := fmt.Sprintf(`shift 2; exec "$0" adopt --pid %d --stop=%s "$@"`, o.Pid(), other.stop)
			cfg := testbed.Config{Routes: []testbed.Route{o.Route}}
			keeper := testbed.StartHoldfastUnder(t, cfg, testbed.Binary, "keep", "--", "sh", "-c", script, testbed.Binary)
			pid := serving(t, keeper, 0)
			assert.Zero(t, o.ExitCode(t, patience))
			require.NoError(t, unix.Kill(pid, unix.SIGKILL))
			onlyOurs(t, o)
			serving(t, keeper, pid)
			for _, s := range keeper.Status(t).Listeners.Sockets {
				assert.Equal(t, "store", s.Origin, s.Socket)
			}
			onlyOurs(t, o)
		})
	}
}

func TestAProgramThatDiesIsServedOn(t *testing.T) {
	o := startOther(t, "haproxy")
	holdfast := adopt(t, testbed.Config{Routes: []testbed.Route{o.Route}}, o.Pid())
	o.Signal(t, unix.SIGKILL)
	assert.Equal(t, -1, o.ExitCode(t, patience))
	onlyOurs(t, o)
	testbed.Eventually(t, patience, "it says so", func() bool {
		return bytes.Contains(holdfast.Log(), []byte("the other program has ended"))
	})
	holdfast.Stop()
	assert.NoFileExists(t, testbed.HostPort(o.unix), "it is its own by then")
}

func TestAdoptSaysWhyNot(t *testing.T) {
	o := startOther(t, "nginx")
	pid := fmt.Sprintf("--pid=%d", o.Pid())
	free := testbed.TCP(t)
	listens := "hint: it listens on tcp " + testbed.HostPort(o.tcp[0])
	for symptom, c := range map[string]struct {
		code   int
		config string
		flags  []string
		says   []string
	}{
		"no process": {1, web(free), []string{"--pid=4194300"}, []string{"error: open process 4194300: no such process"}},
		"a listener that has none of its sockets": {
			1, web(free),
			[]string{pid, "--listener=web"},
			[]string{fmt.Sprintf("error: process %d (nginx): it has no socket for listener web\n", o.Pid()), listens},
		},
		"no address in common": {1, web(free), []string{pid}, []string{"it listens at no address of the configuration", listens}},
		"an unknown listener":  {6, web(o.tcp[0]), []string{pid, "--listener=wep"}, []string{`error: --listener: no listener named "wep"`, `did you mean "web"?`}},
		"no address":           {6, web(o.tcp[0]), []string{pid, "--listener=web=h:1"}, []string{"--listener: "}},
		"nobody's signal":      {2, web(o.tcp[0]), []string{pid, "--stop=QUIET"}, []string{`--stop is the name of a signal`}},
		"no pid":               {2, web(o.tcp[0]), nil, []string{"--pid names the process"}},
		"a worker, to be stopped": {
			1, web(o.tcp[0]),
			[]string{fmt.Sprintf("--pid=%d", workerOf(t, o.Pid())), "--stop=QUIT"},
			[]string{fmt.Sprintf("process %d (nginx), which has started it, has the same sockets", o.Pid()), "hint: name that one"},
		},
		"a process that has no sockets": {
			1, web(free),
			[]string{fmt.Sprintf("--pid=%d", startSleep(t))},
			[]string{"(sleep): it listens at no address of the configuration", "hint: it listens nowhere"},
		},
	} {
		t.Run(symptom, func(t *testing.T) {
			said := refusedAdoption(t, c.code, c.config, c.flags...)
			for _, text := range c.says {
				assert.Contains(t, said, text)
			}
			assert.NotContains(t, said, "listening")
		})
	}
	for _, a := range o.Listen {
		answers(t, "theirs", a)
	}
}

// workerOf is a process that another one has started.
func workerOf(t *testing.T, pid int) int {
	t.Helper()
	children := testbed.Run(t, testbed.Program{Path: testbed.Command(t, "ps"), Args: []string{"-o", "pid=", "--ppid", fmt.Sprint(pid)}})
	var worker int
	_, err := fmt.Sscan(children, &worker)
	require.NoError(t, err)
	return worker
}

func startSleep(t *testing.T) int {
	return testbed.Start(t, testbed.Program{Path: testbed.Command(t, "sleep"), Args: []string{"300"}}).Pid()
}

func TestAdoptWithoutTheRightsSaysWhatWouldDo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	o := startOther(t, "nginx")
	program := filepath.Join(testbed.Dir(t), "holdfast") // nobody may not enter the other's directory
	content, err := os.ReadFile(testbed.Binary)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, content, 0o755))
	cmd := exec.Command(program, "adopt", "--pid", fmt.Sprint(o.Pid()), "--listen", o.tcp[0], "--upstream", "127.0.0.1:9")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	said := failed(t, 4, cmd, filepath.Dir(program))
	assert.Contains(t, said, fmt.Sprintf("error: take descriptors of process %d (nginx): it runs as user root and this process as user nobody", o.Pid()))
	assert.Contains(t, said, "hint: run as root, or with CAP_SYS_PTRACE")
	answers(t, "theirs", o.tcp[0])
}
