package keeper_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
)

func init() {
	roles["pid 1"] = func(arguments []string) int {
		err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		if err == nil {
			err = unix.Mount("proc", "/proc", "proc", 0, "")
		}
		if err == nil {
			err = unix.Exec("/proc/self/exe", append([]string{os.Args[0], "keeper"}, arguments...), os.Environ())
		}
		fmt.Fprintln(os.Stderr, err)
		return 125
	}
}

// asPID1 makes a keeper the PID 1 of a name space, with a /proc of its own.
func asPID1(t *testing.T, keeper *exec.Cmd) *exec.Cmd {
	t.Helper()
	if unix.Geteuid() != 0 {
		t.Skip("only root can make a PID name space")
	}
	keeper.Args[1] = "pid 1"
	keeper.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	return keeper
}

func TestAsPID1(t *testing.T) {
	t.Parallel()
	h := newHouse(t, keeper.Options{StoreMax: 5, StopTimeout: patience})
	h.startAs(asPID1(t, h.command("/proc/self/exe", "agent", h.listener.Addr().String())))
	s := h.next()
	assert.Equal(t, 1, s.Parent)
	s.push("x", 1)
	assert.Equal(t, "restart", s.do(request{Do: "job"}).Text)
	s.do(request{Do: "fork", Names: []string{"session"}})
	parent := h.next()
	parent.do(request{Do: "fork"})
	orphan := h.next()
	parent.exit(0)
	orphan.say("READY=1")
	s.do(request{Do: "fork"})
	h.next()

	s.exit(0)
	s = h.next()
	assert.Equal(t, []string{"x"}, s.Names)
	orphan.exit(0)
	h.eventually("one process and no zombie is left", func() bool { return len(childrenOf(h.keeper.Process.Pid)) == 1 })
	h.signal(unix.SIGHUP)
	h.eventually("signals are passed on", func() bool { return len(s.do(request{Do: "caught"}).Names) == 1 })
	for _, pid := range childrenOf(h.keeper.Process.Pid) {
		require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	}
	h.next()
	h.stop()
}

func TestPID1EndsWithItsService(t *testing.T) {
	t.Parallel()
	h := newHouse(t, keeper.Options{Restart: keeper.RestartNever})
	h.startAs(asPID1(t, h.command("sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 6")))
	assert.Equal(t, 6, h.code(), "whatever else runs: the kernel ends it")
}
