package pidfd_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// program is a server that knows nothing of us. It answers "theirs".
type program struct {
	config string      // with %[1]s for a directory and %[2]d to %[4]d for ports
	args   []string    // before the directory
	stop   unix.Signal // ends it in order: who is accepted is served

	removesFile bool // it removes the Unix socket's file when it ends
	renamesFile bool // it renames that file when it has bound it
}

var programs = map[string]program{
	"nginx": {
		config: `
daemon off;
pid %[1]s/pid;
error_log stderr crit;
worker_processes 2;
events { worker_connections 512; }
http {
	access_log off;
	server {
		listen 127.0.0.1:%[2]d backlog=4096;
		listen [::1]:%[3]d backlog=4096;
		listen 127.0.0.1:%[4]d reuseport;
		listen unix:%[1]s/x.sock;
		return 200 theirs;
	}
}`,
		args: []string{"-e", "stderr", "-c", "config", "-p"}, stop: unix.SIGQUIT, removesFile: true,
	},
	"haproxy": {
		config: `
global
	nbthread 2
	maxconn 500
defaults
	mode http
	timeout client 60s
	timeout server 60s
	timeout connect 60s
frontend theirs
	bind 127.0.0.1:%[2]d backlog 4096
	bind [::1]:%[3]d backlog 4096
	bind 127.0.0.1:%[4]d shards by-thread
	bind unix@%[1]s/x.sock
	http-request return status 200 content-type text/plain string theirs
`,
		args: []string{"-db", "-q", "-f", "config", "-C"}, stop: unix.SIGUSR1, renamesFile: true,
	},
}

// site is a program at work.
type site struct {
	*exec.Cmd
	tcp4, tcp6, reuseport, unix sock.Addr
}

func (p program) start(t *testing.T, name string) *site {
	t.Helper()
	dir, ports := t.TempDir(), [3]int{freePort(t), freePort(t), freePort(t)}
	config := fmt.Sprintf(p.config, dir, ports[0], ports[1], ports[2])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600))
	s := &site{
		Cmd:       exec.Command(installed(t, name), append(p.args, dir)...),
		tcp4:      tcp(fmt.Sprintf("127.0.0.1:%d", ports[0])),
		tcp6:      tcp(fmt.Sprintf("[::1]:%d", ports[1])),
		reuseport: tcp(fmt.Sprintf("127.0.0.1:%d", ports[2])),
		unix:      sock.Unix(filepath.Join(dir, "x.sock")),
	}
	s.Stderr = os.Stderr
	s.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} // for its workers, too
	require.NoError(t, s.Start())
	t.Cleanup(func() {
		_ = s.Process.Signal(unix.SIGTERM)
		_ = s.Wait()
	})
	for _, a := range s.addrs() {
		require.Eventually(t, func() bool {
			body, err := get(a)
			return err == nil && body == "theirs"
		}, patience, 10*time.Millisecond, "%s answers at %s", name, a)
	}
	return s
}

func (s *site) addrs() []sock.Addr {
	return []sock.Addr{s.tcp4, s.tcp6, s.reuseport, s.unix}
}

// installed is the path of a program that the tests need.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	require.NoError(t, err, "this test needs %s: apt-get install %[1]s", name)
	return path
}

// freePort is one that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// get is the body of an answer, over a connection of its own.
func get(a sock.Addr) (string, error) {
	to := a.Path
	if to == "" {
		to = a.AddrPort.String()
	}
	conn, err := net.Dial(a.Network, to)
	if err != nil {
		return "", err
	}
	defer conn.Close()
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
