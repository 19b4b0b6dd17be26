package integration

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// benchmarkedRedis is redis-benchmark, which has no end of its own: it gives up when one
// of its connections does not go on. The server counts who connects.
func benchmarkedRedis(t *testing.T) lasting {
	const clients = 50
	routes := redis(t).routes
	return lasting{"redis-benchmark", routes, func(t *testing.T) func(*testing.T) {
		conn := dial(t, routes[0].Servers[0])
		require.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Minute)))
		info := bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
		benchmark := testbed.Start(t, testbed.Program{Path: testbed.Command(t, "nice"), Args: []string{
			"-n", "19", "redis-benchmark", "-h", "127.0.0.1", "-p", testbed.PortOf(routes[0].Listen[0]),
			"-c", strconv.Itoa(clients), "-n", "1000000000", "-t", "set", "-q",
		}})
		testbed.Eventually(t, patience, "all are connected", func() bool { return redisInfo(t, info, "connected_clients") > clients })
		connected := redisInfo(t, info, "total_connections_received")
		return func(t *testing.T) {
			before := redisInfo(t, info, "total_commands_processed")
			testbed.Eventually(t, patience, "requests are answered", func() bool {
				return redisInfo(t, info, "total_commands_processed") > before+10_000
			})
			assert.False(t, benchmark.Ended(), "%s", benchmark.Log())
			assert.NotRegexp(t, `(?i)error|reset|closed`, string(benchmark.Log()))
			assert.Equal(t, connected, redisInfo(t, info, "total_connections_received"), "nobody has connected anew")
			benchmark.Stop()
		}
	}}
}

// redisInfo is a number in what INFO says.
func redisInfo(t *testing.T, server *bufio.ReadWriter, name string) int {
	t.Helper()
	_, err := server.WriteString("INFO\r\n")
	require.NoError(t, err)
	require.NoError(t, server.Flush())
	var length int
	_, err = fmt.Fscanf(server, "$%d\r\n", &length)
	require.NoError(t, err)
	text := make([]byte, length+len("\r\n"))
	_, err = io.ReadFull(server, text)
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^` + name + `:(\d+)`).FindSubmatch(text)
	require.NotNil(t, found, name)
	n, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return n
}

// benchmarkedPostgres is pgbench.
func benchmarkedPostgres(t *testing.T) lasting {
	routes := postgres(t).routes[:1]
	return lasting{"pgbench", routes, func(t *testing.T) func(*testing.T) {
		bench := testbed.Start(t, testbed.Program{Path: testbed.Command(t, "pgbench"), Args: []string{
			"-U", "postgres", "-d", "postgres", "-h", "127.0.0.1", "-p", testbed.PortOf(routes[0].Listen[0]),
			"-n", "-c", "8", "-R", "200", "-P", "1", "-T", "3600",
		}})
		testbed.Eventually(t, patience, "it is under way", func() bool { return bytes.Contains(bench.Log(), []byte("progress: 1")) })
		return func(t *testing.T) {
			bench.Signal(t, syscall.SIGALRM) // by which it tells itself that its time is up
			assert.Zero(t, bench.ExitCode(t, patience))
			assert.Contains(t, string(bench.Log()), "number of failed transactions: 0 ")
			assert.NotContains(t, string(bench.Log()), "aborted")
		}
	}}
}

// interactiveSSH is a shell on a terminal that is asked something time and again.
func interactiveSSH(t *testing.T) lasting {
	route, login := sshLogin(t, "shell")
	return lasting{"interactive SSH", []testbed.Route{route}, func(t *testing.T) func(*testing.T) {
		ssh := login(t, "exec sh", "-tt")
		to, err := ssh.StdinPipe()
		require.NoError(t, err)
		from, err := ssh.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, ssh.Start())
		t.Cleanup(func() { _ = ssh.Process.Kill() })
		s := &shell{to: to, from: bufio.NewReader(from), over: make(chan struct{}), first: make(chan struct{}), ended: make(chan error, 1)}
		go func() { s.ended <- s.keepAsking() }() // ends when it is over, and with the session
		select {
		case <-s.first:
		case err := <-s.ended:
			require.NoError(t, err)
		}
		return func(t *testing.T) {
			close(s.over)
			require.NoError(t, <-s.ended)
			_, err := io.WriteString(to, "exit 7\n")
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, s.from)
			var exit *exec.ExitError
			require.ErrorAs(t, ssh.Wait(), &exit)
			assert.Equal(t, 7, exit.ExitCode(), "of the shell, not of a client that lost it")
			t.Logf("asked %d times", s.asked)
		}
	}}
}

// shell is one that does sums.
type shell struct {
	to    io.Writer
	from  *bufio.Reader
	asked int
	over  chan struct{}
	first chan struct{} // closed when one answer has come
	ended chan error
}

func (s *shell) keepAsking() error {
	for {
		s.asked++
		if _, err := fmt.Fprintf(s.to, "echo sum $((%d + 1))\n", s.asked); err != nil {
			return err
		}
		for answer := fmt.Sprintf("sum %d", s.asked+1); ; {
			line, err := s.from.ReadString('\n')
			if err != nil {
				return err
			}
			if strings.Contains(line, answer) {
				break
			}
		}
		if s.asked == 1 {
			close(s.first)
		}
		select {
		case <-s.over:
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}
