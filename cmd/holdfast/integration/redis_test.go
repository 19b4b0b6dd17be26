package integration

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// redis runs redis-benchmark over TCP and a Unix socket, to a server with both,
// while a subscriber stays connected.
func redis(t *testing.T) traffic {
	dir := testbed.Dir(t)
	tcp, unix := testbed.TCP(t), "unix://"+filepath.Join(dir, "server.sock")
	testbed.Start(t, testbed.Program{Path: testbed.Command(t, "redis-server"), Args: []string{
		"--bind", "127.0.0.1", "--port", testbed.PortOf(tcp), "--unixsocket", testbed.HostPort(unix),
		"--save", "", "--appendonly", "no", "--dir", dir,
	}})
	testbed.Listening(t, tcp)

	route := testbed.Route{
		Name:    "redis",
		Listen:  []string{testbed.TCP(t), "unix://" + filepath.Join(dir, "listen.sock")},
		Servers: []string{tcp, unix},
	}
	return traffic{"redis", []testbed.Route{route}, func(t *testing.T, _ *testbed.Holdfast) {
		subscriber := subscribe(t, route.Listen[0])
		overTCP := []string{"-h", "127.0.0.1", "-p", testbed.PortOf(route.Listen[0])}
		overUnix := []string{"-s", testbed.HostPort(route.Listen[1])}
		t.Run("TCP", func(t *testing.T) { redisBenchmark(t, overTCP, "-n", "20000") })
		t.Run("Unix", func(t *testing.T) { redisBenchmark(t, overUnix, "-n", "20000") })
		t.Run("pipelined", func(t *testing.T) { redisBenchmark(t, overTCP, "-n", "100000", "-P", "16") })
		t.Run("large values", func(t *testing.T) { redisBenchmark(t, overTCP, "-n", "2000", "-d", "200000") })
		t.Run("subscriber", func(t *testing.T) { publish(t, route.Listen[0], subscriber) })
	}}
}

// result is a closing line of redis-benchmark -q.
var result = regexp.MustCompile(`(?m)(GET|SET): [0-9.]+ requests per second`)

func redisBenchmark(t *testing.T, to []string, args ...string) {
	args = append(append(to, "-q", "-c", "50", "-t", "set,get"), args...)
	out := testbed.Run(t, testbed.Program{Path: testbed.Command(t, "redis-benchmark"), Args: args})
	assert.NotRegexp(t, `(?i)error|reset|closed`, out)
	assert.Len(t, result.FindAllString(out, -1), 2, "each test has a result:\n%s", out)
}

func subscribe(t *testing.T, address string) io.Reader {
	conn := dial(t, address)
	_, err := io.WriteString(conn, "SUBSCRIBE news\r\n")
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	subscriber := bufio.NewReader(conn)
	expect(t, subscriber, "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n")
	return subscriber
}

func publish(t *testing.T, address string, subscriber io.Reader) {
	conn := dial(t, address)
	for i := range 1000 {
		_, err := fmt.Fprintf(conn, "PUBLISH news %04d\r\n", i)
		require.NoError(t, err)
		expect(t, conn, ":1\r\n")
		expect(t, subscriber, fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$4\r\n%04d\r\n", i))
	}
}
