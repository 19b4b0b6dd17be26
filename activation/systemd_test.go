package activation_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	goactivation "github.com/coreos/go-systemd/v22/activation"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// report is what a child process found in its environment.
type report struct {
	Offers    []string // "name: what it is"
	Inherited []string // descriptors a child of the child would get
	Left      []string // LISTEN_ variables afterwards
	Again     int      // offers of a second call
	Log       string
}

func init() {
	children["report"] = func() int {
		if poll() != 0 { // from here on the runtime has descriptors of its own
			return 1
		}
		var log bytes.Buffer
		source := activation.FromSystemd(textLog(&log))
		again := activation.FromSystemd(textLog(&log))
		r := report{Again: len(again.Offers), Log: log.String()}
		for _, o := range source.Offers {
			info, err := sock.Classify(o.FD.Raw())
			what := info.String()
			if err != nil {
				what = err.Error()
			}
			r.Offers = append(r.Offers, o.Name+": "+what)
			if flags, _ := unix.FcntlInt(uintptr(o.FD.Raw()), unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 {
				r.Inherited = append(r.Inherited, o.Name)
			}
		}
		for _, v := range os.Environ() {
			if strings.HasPrefix(v, "LISTEN_") {
				r.Left = append(r.Left, v)
			}
		}
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			return 1
		}
		// Whatever LISTEN_FDS claimed, the runtime must go on working.
		runtime.GC()
		runtime.GC()
		return poll()
	}
	children["go-systemd"] = func() int {
		for _, f := range goactivation.Files(true) {
			fmt.Println(f.Name())
		}
		return 0
	}
}

func textLog(b *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// poll needs the runtime's poller: it fails or hangs when that was closed.
func poll() int {
	l, err := net.Listen("unix", "@"+fmt.Sprint(os.Getpid()))
	if err != nil {
		return 1
	}
	defer l.Close()
	go func() {
		if c, err := net.Dial("unix", l.Addr().String()); err == nil {
			_ = c.Close()
		}
	}()
	if _, err := l.Accept(); err != nil {
		return 1
	}
	return 0
}

// activated runs a child of this test binary with the files as its descriptors
// from 3 on. In the environment $$ is the child's own process number.
func activated(t *testing.T, child string, env []string, files ...*os.File) string {
	t.Helper()
	script := `exec "$0"`
	for _, e := range env {
		script = "export " + e + "\n" + script
	}
	cmd := exec.Command("/bin/sh", "-c", script, self(t))
	cmd.Env = append(os.Environ(), "ACTIVATION_TEST_CHILD="+child, "GORACE=atexit_sleep_ms=0")
	cmd.ExtraFiles = files
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func activatedReport(t *testing.T, env []string, files ...*os.File) report {
	t.Helper()
	var r report
	require.NoError(t, json.Unmarshal([]byte(activated(t, "report", env, files...)), &r))
	return r
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return exe
}

// passed is a file for a child with the same open socket as the offer.
func passed(t *testing.T, o activation.Offer) *os.File {
	t.Helper()
	f := os.NewFile(uintptr(dup(t, o, "").FD.Disown()), "socket")
	t.Cleanup(func() { assert.NoError(t, f.Close()) })
	return f
}

func TestDescriptorsOfTheEnvironmentAreTakenOnce(t *testing.T) {
	dir := t.TempDir()
	v4, file := offer(t, "", anyPort), offer(t, "", sock.Unix(dir+"/s"))
	systemd(t, v4, file) // closes them
	r := activatedReport(t, []string{"LISTEN_PID=$$", "LISTEN_FDS=3", "LISTEN_FDNAMES=web:db:web"},
		passed(t, v4), passed(t, file), os.Stdin)

	assert.Equal(t, []string{"web: " + addr(t, v4).String(), "db: unix " + dir + "/s"}, r.Offers[:2])
	assert.Contains(t, r.Offers[2], "web: not a socket but ")
	assert.Empty(t, r.Inherited, "a child must not get them")
	assert.Empty(t, r.Left, "a child must not believe in them")
	assert.Zero(t, r.Again)
	assert.NotContains(t, r.Log, "WARN")
}

func TestVariablesOfAWrapperAreIgnoredAndUnset(t *testing.T) {
	v4 := offer(t, "", anyPort)
	systemd(t, v4)
	r := activatedReport(t, []string{"LISTEN_PID=1", "LISTEN_FDS=1", "LISTEN_FDNAMES=web"}, passed(t, v4))
	assert.Empty(t, r.Offers)
	assert.Empty(t, r.Left)
	assert.Contains(t, r.Log, `level=DEBUG msg="no sockets from systemd" reason="LISTEN_FDS is not for this process: LISTEN_PID is \"1\"`)
	assert.NotContains(t, r.Log, "WARN")
}

func TestGarbageInTheEnvironmentIsReportedAndSurvived(t *testing.T) {
	for _, tt := range []struct {
		fds, names string
		offers     int
		log        string
	}{
		{fds: "-1", log: `LISTEN_FDS=\"-1\" is not a number from 0 to 65536`},
		{fds: "two", log: `LISTEN_FDS=\"two\" is not a number`},
		{fds: "9223372036854775807", log: `is not a number from 0 to 65536`},
		{fds: "1", names: "a:b", offers: 1, log: "LISTEN_FDNAMES has 2 names for 1 descriptors"},
		{fds: "1", names: "$(printf '\\001')", offers: 1, log: "LISTEN_FDNAMES has 1 invalid names"},
		// More than there are: what follows is closed, or the Go runtime's own.
		{fds: "2", offers: 1, log: "descriptor"},
		{fds: "65536", offers: 1, log: "descriptors announced but not open"},
	} {
		t.Run(tt.fds+" "+tt.names, func(t *testing.T) {
			v4 := offer(t, "", anyPort)
			systemd(t, v4)
			r := activatedReport(t, []string{"LISTEN_PID=$$", "LISTEN_FDS=" + tt.fds, "LISTEN_FDNAMES=" + tt.names}, passed(t, v4))
			assert.Len(t, r.Offers, tt.offers)
			assert.Contains(t, r.Log, "level=WARN")
			assert.Contains(t, r.Log, tt.log)
			assert.Empty(t, r.Left)
		})
	}
}

func TestTheRuntimesOwnDescriptorsAreNotTaken(t *testing.T) {
	r := activatedReport(t, []string{"LISTEN_PID=$$", "LISTEN_FDS=64"})
	assert.Empty(t, r.Offers)
	assert.Contains(t, r.Log, "descriptor was opened by this process and not passed to it", "no descriptor of the runtime was met: %s", r.Log)
}

func TestNamesAreThoseThatGoSystemdFinds(t *testing.T) {
	a, b := offer(t, "", anyPort), offer(t, "", anyPort)
	systemd(t, a, b)
	env := []string{"LISTEN_PID=$$", "LISTEN_FDS=2", "LISTEN_FDNAMES=web:holdfast.socket"}
	theirs := strings.Fields(activated(t, "go-systemd", env, passed(t, a), passed(t, b)))
	ours := activatedReport(t, env, passed(t, a), passed(t, b))
	require.Len(t, ours.Offers, len(theirs))
	for i, name := range theirs {
		assert.Equal(t, name, strings.Split(ours.Offers[i], ":")[0])
	}
}

func init() {
	// Serves each inherited or bound socket one client, who is told the
	// listener, the origin and the address; the last one is called "own".
	children["serve"] = func() int {
		own := sock.Unix(os.Getenv("OWN"))
		r, err := activation.Acquire([]activation.Want{
			{Name: "a"}, {Name: "b", Addrs: []sock.Addr{own}}, {Name: "rest", TakesAny: true},
		}, nil, []*activation.Source{activation.FromSystemd(slog.New(slog.NewTextHandler(os.Stderr, nil)))})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer r.Close()
		for _, l := range r.Listeners {
			for _, s := range l.Sockets {
				if err := greet(s, fmt.Sprintf("%s %s %s", l.Name, s.Origin, s.Addr())); err != nil {
					fmt.Fprintln(os.Stderr, s.Addr(), err)
					return 1
				}
			}
		}
		return 0
	}
}

// greet accepts one client, within some seconds, and sends it the text.
func greet(s activation.Socket, text string) error {
	const patience = 10_000 // ms
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(s.FD.Raw()), Events: unix.POLLIN}}, patience); err != nil {
		return err
	}
	raw, _, err := unix.Accept4(s.FD.Raw(), unix.SOCK_CLOEXEC)
	if err != nil {
		return err
	}
	client := sock.NewFD(raw)
	defer client.Close()
	_, err = unix.Write(client.Raw(), []byte(text))
	return err
}

func TestRealSocketActivation(t *testing.T) {
	tool, err := exec.LookPath("systemd-socket-activate")
	require.NoError(t, err, "this test needs systemd-socket-activate: apt-get install systemd")
	dir := t.TempDir()
	path, abstract, own := filepath.Join(dir, "unit"), "@"+dir, filepath.Join(dir, "own")
	v4, v6 := freePort(t, "127.0.0.1:0"), freePort(t, "[::1]:0")

	cmd := exec.Command(tool, "-l", v4, "-l", v6, "-l", path, "-l", abstract, "--fdname=a:b:a:elsewhere",
		"-E", "ACTIVATION_TEST_CHILD=serve", "-E", "OWN="+own, "-E", "GORACE=atexit_sleep_ms=0", self(t))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }() // without effect when it has ended well

	for _, tt := range []struct{ network, address, want string }{
		{"tcp", v4, "a systemd tcp " + v4},
		{"unix", path, "a systemd unix " + path},
		{"tcp", v6, "b systemd tcp " + v6},
		{"unix", own, "b bind unix " + own},
		{"unix", abstract, "rest systemd unix " + abstract},
	} {
		assert.Equal(t, tt.want, greeting(t, tt.network, tt.address))
	}
	require.NoError(t, <-waited, "%s", &stderr)
	assert.NoFileExists(t, own)
	assert.FileExists(t, path, "the unit's path is the unit's")
}

func freePort(t *testing.T, hostPort string) string {
	t.Helper()
	l, err := net.Listen("tcp", hostPort)
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
