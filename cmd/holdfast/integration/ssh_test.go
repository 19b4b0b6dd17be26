package integration

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// sshLogin starts an sshd that lets the tester in by key. ssh logs in through the route,
// with options before what is to be run.
func sshLogin(t *testing.T, name string) (route testbed.Route, ssh func(t *testing.T, command string, options ...string) *exec.Cmd) {
	dir := testbed.Dir(t)
	hostKey, userKey := filepath.Join(dir, "host"), filepath.Join(dir, "user")
	for _, key := range []string{hostKey, userKey} {
		testbed.Run(t, testbed.Program{
			Path: testbed.Command(t, "ssh-keygen"),
			Args: []string{"-q", "-t", "ed25519", "-N", "", "-f", key},
		})
	}
	if os.Geteuid() == 0 {
		// Where its privileges are dropped; made at boot by the unit that does not run here.
		require.NoError(t, os.MkdirAll("/run/sshd", 0o755))
	}
	server := testbed.TCP(t)
	testbed.Start(t, testbed.Program{Path: testbed.Command(t, "sshd"), Args: []string{
		"-D", "-e", "-f", "/dev/null", "-h", hostKey, "-o", "ListenAddress=" + testbed.HostPort(server),
		"-o", "AuthorizedKeysFile=" + userKey + ".pub", "-o", "StrictModes=no", "-o", "UsePAM=no",
		"-o", "PidFile=none", "-o", "PermitRootLogin=prohibit-password",
	}})
	testbed.Listening(t, server)

	me, err := user.Current()
	require.NoError(t, err)
	route = testbed.Route{Name: name, Listen: []string{testbed.TCP(t)}, Servers: []string{server}}
	return route, func(t *testing.T, command string, options ...string) *exec.Cmd {
		return exec.Command(testbed.Command(t, "ssh"), append(options, "-F", "none", "-i", userKey, "-p", testbed.PortOf(route.Listen[0]),
			"-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
			me.Username+"@127.0.0.1", command)...)
	}
}

// sshSession runs a command and copies a file in and out.
func sshSession(t *testing.T) traffic {
	route, ssh := sshLogin(t, "ssh")
	return traffic{"SSH", []testbed.Route{route}, func(t *testing.T, _ *testbed.Holdfast) {
		t.Run("command", func(t *testing.T) {
			out, err := ssh(t, "seq 1 100000; exit 7").CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "%s", out)
			assert.Equal(t, 7, exit.ExitCode(), "the command's own")
			assert.True(t, strings.HasSuffix(string(out), "\n99999\n100000\n"), "whole output")
		})
		t.Run("copy there and back", func(t *testing.T) {
			there := randomFile(t, filepath.Join(t.TempDir(), "there"), 50<<20)
			back := filepath.Join(t.TempDir(), "back")
			in, err := os.Open(there)
			require.NoError(t, err)
			defer func() { _ = in.Close() }()
			out, err := os.Create(back)
			require.NoError(t, err)
			defer func() { _ = out.Close() }()
			copying := ssh(t, "cat")
			copying.Stdin, copying.Stdout = in, out
			require.NoError(t, copying.Run())
			assert.Equal(t, fileHash(t, there), fileHash(t, back))
		})
	}}
}
