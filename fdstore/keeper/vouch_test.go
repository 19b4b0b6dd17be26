package keeper_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
)

// strange is a keeper that has taken a service on, and a process that the keeper before it
// was the parent of.
func strange(t *testing.T) (h *house, s, orphan *service) {
	t.Helper()
	h = inDir(t, keeper.Options{StopTimeout: patience})
	s = h.next()
	between := successor(h, s)
	orphan = successor(h, between)
	between.exit(0)
	h.killed()
	h.start()
	h.logs("taken on", "pid="+strconv.Itoa(s.PID))
	return h, s, orphan
}

func TestTheMainProcessVouchesForOneThatIsNoRelative(t *testing.T) {
	t.Parallel()
	h, s, orphan := strange(t)
	orphan.send("MAINPID=" + strconv.Itoa(orphan.PID)) // nobody of the service has said it
	s.say()
	assert.NotContains(t, h.log(), "another process")
	s.say("MAINPID=" + strconv.Itoa(orphan.PID))
	h.logs("another process is the main one", "pid="+strconv.Itoa(orphan.PID))
	s.exit(0)
	orphan.say("STATUS=here")
	h.signal(unix.SIGHUP)
	h.eventually("signals are passed on to it", func() bool { return len(orphan.do(request{Do: "caught"}).Names) == 1 })
	h.stop()
}

func TestTheMainProcessDoesNotVouchForAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	h, s, _ := strange(t)
	other := exec.Command("sleep", "1000")
	other.Env = []string{"NOTIFY_SOCKET=" + filepath.Join(h.options.Dir, "notify.sock")}
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	require.NoError(t, other.Start())
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	s.say("MAINPID=" + strconv.Itoa(other.Process.Pid))
	h.logs("none of our processes", "pid="+strconv.Itoa(other.Process.Pid))
	h.stop()
}
