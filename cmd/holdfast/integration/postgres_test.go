package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// postgres runs pgbench over TCP and a Unix socket, each to a server's of the
// same kind.
func postgres(t *testing.T) traffic {
	const superuser = "postgres" // the server refuses to run as root
	parent := testbed.Dir(t)
	require.NoError(t, os.Chmod(parent, 0o777))
	data := filepath.Join(parent, "data")
	testbed.Run(t, testbed.Program{
		Path: testbed.Command(t, "initdb"), User: superuser,
		Args: []string{"-D", data, "-U", superuser, "--auth=trust", "--no-sync", "--no-instructions"},
	})
	tcp := testbed.TCP(t)
	port := testbed.PortOf(tcp)
	server := testbed.Start(t, testbed.Program{
		Path: testbed.Command(t, "postgres"), User: superuser,
		Args: []string{
			"-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=" + data, "-c", "fsync=off",
		},
	})
	testbed.Eventually(t, patience, "PostgreSQL has started", func() bool { // it listens before it serves
		return bytes.Contains(server.Log(), []byte("ready to accept connections"))
	})
	client := func(args ...string) testbed.Program {
		return testbed.Program{
			Path: testbed.Command(t, "pgbench"),
			Args: append([]string{"-U", superuser, "-d", "postgres"}, args...),
		}
	}
	testbed.Run(t, client("-h", "127.0.0.1", "-p", port, "-i", "-q"))

	// A client finds the Unix socket by the server's directory and port.
	dir := testbed.Dir(t)
	overTCP := testbed.Route{Name: "postgres", Listen: []string{testbed.TCP(t)}, Servers: []string{tcp}}
	overUnix := testbed.Route{
		Name:    "postgres-unix",
		Listen:  []string{"unix://" + filepath.Join(dir, ".s.PGSQL.5432")},
		Servers: []string{"unix://" + filepath.Join(data, ".s.PGSQL."+port)},
	}
	run := func(t *testing.T, args ...string) {
		args = append(args, "-n", "-c", "8", "-T", strconv.Itoa(unlessShort(3, 1)))
		out := testbed.Run(t, client(args...))
		assert.Contains(t, out, "number of failed transactions: 0 ")
		assert.NotContains(t, out, "aborted")
	}
	return traffic{"postgresql", []testbed.Route{overTCP, overUnix}, func(t *testing.T, _ *testbed.Holdfast) {
		port := testbed.PortOf(overTCP.Listen[0])
		t.Run("TCP", func(t *testing.T) { run(t, "-h", "127.0.0.1", "-p", port) })
		t.Run("Unix", func(t *testing.T) { run(t, "-h", dir, "-p", "5432") })
		t.Run("a connection per transaction", func(t *testing.T) { run(t, "-h", "127.0.0.1", "-p", port, "-C", "-S") })
	}}
}
