package integration

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// withoutBus has nothing ask the system bus, which would speak of the unit that this test
// runs in.
func withoutBus(t *testing.T) {
	t.Helper()
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent")
}

// underKeeper starts an instance under a keeper with those flags. Whoever serves at the end
// of the test ends with it.
func underKeeper(t *testing.T, cfg testbed.Config, flags ...string) *testbed.Holdfast {
	t.Helper()
	withoutBus(t)
	wrapper := slices.Concat([]string{testbed.Binary, "keep"}, flags, []string{"--"})
	holdfast := testbed.StartHoldfastUnder(t, cfg, wrapper...)
	t.Cleanup(func() {
		if now, ok := statusBetween(holdfast); ok {
			_ = unix.Kill(now.PID, unix.SIGKILL)
		}
	})
	return holdfast
}

// kept is an echo route, and its instance under a keeper.
func kept(t *testing.T, flags ...string) (*testbed.Holdfast, testbed.Route) {
	t.Helper()
	server := testbed.TCP(t)
	listen(t, server, echo)
	route := testbed.Route{
		Name:    "echo",
		Listen:  []string{testbed.TCP(t), "unix://" + filepath.Join(testbed.Dir(t), "listen.sock")},
		Servers: []string{server},
	}
	return underKeeper(t, testbed.Config{Global: `drain_timeout = "0"`, Routes: []testbed.Route{route}}, flags...), route
}

// serving waits until another process serves than the former one, which may answer yet, or
// be about to, and tells its number.
func serving(t *testing.T, holdfast *testbed.Holdfast, former int) (pid int) {
	t.Helper()
	testbed.Eventually(t, patience, "the next process serves", func() bool {
		now, ok := statusBetween(holdfast)
		pid = now.PID
		return ok && pid != former && now.State == status.Running
	})
	return pid
}

// statusBetween is the status of who answers while one process gives way to the next, if
// anybody does.
func statusBetween(holdfast *testbed.Holdfast) (now status.Status, ok bool) {
	said, err := exec.Command(testbed.Binary, "status", "--json", "--control-socket", holdfast.Control).Output()
	ok = err == nil && json.Unmarshal(said, &now) == nil
	return now, ok
}

func TestUnderAKeeperWhoComesWhileNothingRunsIsServed(t *testing.T) {
	holdfast, route := kept(t)
	pid := serving(t, holdfast, 0)
	require.NotEqual(t, holdfast.Pid(), pid)
	for range unlessShort(4, 2) {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		var waiting []net.Conn
		for range 10 {
			for _, address := range route.Listen {
				waiting = append(waiting, dial(t, address))
			}
		}
		for _, conn := range waiting {
			requireEcho(t, conn, "from the queue\n")
		}
		pid = serving(t, holdfast, pid)
	}
	for _, l := range holdfast.Status(t).Listeners.Sockets {
		assert.Equal(t, "store", l.Origin, l.Socket)
	}

	holdfast.Signal(t, syscall.SIGTERM)
	assert.Zero(t, holdfast.ExitCode(t, patience))
	for _, address := range route.Listen {
		_, err := testbed.Dial(address)
		assert.Error(t, err, "a stop is a stop")
	}
}

func TestUnderAKeeperARestartWithABrokenFileGoesOn(t *testing.T) {
	holdfast, route := kept(t)
	file := filepath.Join(filepath.Dir(holdfast.Control), "holdfast.toml")
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte("x = ["), 0o600))
	pid := serving(t, holdfast, 0)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	requireEcho(t, dial(t, route.Listen[0]), "all the same\n")
	serving(t, holdfast, pid)
	lastError := func() string { return holdfast.Status(t).Listeners.LastError }
	testbed.Eventually(t, patience, "it says what is wrong", func() bool { return lastError() != "" })

	require.NoError(t, os.WriteFile(file, good, 0o600))
	holdfast.Signal(t, syscall.SIGHUP) // to the keeper
	testbed.Eventually(t, patience, "it has read the file again", func() bool { return lastError() == "" })
	requireEcho(t, dial(t, route.Listen[0]), "as before\n")
}

func TestUnderAKeeperAProcessThatHangsIsReplaced(t *testing.T) {
	holdfast, route := kept(t, "--watchdog", "2s", "--stop-timeout", "1s")
	pid := serving(t, holdfast, 0)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	// It is woken to be killed, and may accept somebody in that moment. Nobody is refused.
	testbed.Eventually(t, patience, "the next process serves", func() bool {
		conn := dial(t, route.Listen[0])
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, err := io.WriteString(conn, "x")
		if err == nil {
			_, err = io.ReadFull(conn, make([]byte, 1))
		}
		return err == nil
	})
	serving(t, holdfast, pid)
}
