package keeper_test

import (
	"crypto/rand"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

func TestMessagesOfOthersDoNothing(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StoreMax: 5, Watchdog: time.Minute, StopTimeout: 200 * time.Millisecond})
	s := h.next()
	s.push("mine", 1)
	s.say("READY=1")
	stranger := &storetest.Notifier{Socket: s.variable("NOTIFY_SOCKET")}
	require.NoError(t, pushEventfds(stranger, 1, "FDSTORE=1", "FDNAME=theirs"))
	for _, line := range []string{"FDSTOREREMOVE=1\nFDNAME=mine", "STOPPING=1", "WATCHDOG=trigger", "WATCHDOG_USEC=1", "MAINPID=1"} {
		require.NoError(t, stranger.SendFDs(nil, line))
	}
	require.NoError(t, stranger.Barrier(t.Context()), "a barrier is answered to anybody")
	h.logs("none of ours")
	s.say("STATUS=as before") // whatever was due at once has been done
	assert.NotContains(t, h.log(), "msg=ending")
	assert.NotContains(t, h.log(), "hung")
	s.exit(0)
	assert.Equal(t, []string{"mine"}, h.next().Names)
	h.stop()
}

func TestADescendantSpeaksForTheService(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StoreMax: 5, StopTimeout: patience})
	s := h.next()
	s.do(request{Do: "fork", Names: []string{"session"}})
	helper := h.next()
	helper.push("its", 1)
	helper.say("READY=1")
	h.logs("ready")
	h.stop()
}

func TestAScriptUsesSystemdNotify(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-notify"); err != nil {
		t.Fatal("systemd-notify is not installed: .ci/setup installs it")
	}
	h := newHouse(t, keeper.Options{StopTimeout: patience})
	h.start("sh", "-c", `systemd-notify --ready --status="all is well"; exec sleep 1000`)
	h.logs("ready")
	h.logs("status", `"all is well"`)
	h.stop()
}

func TestGarbageDoesNotDisturb(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StoreMax: 5, StopTimeout: patience})
	s := h.next()
	noise := make([]byte, 3000)
	_, _ = rand.Read(noise)
	for _, message := range []string{
		"", "\n", "\x00", "=", "READY", "READY=1\x00\x00", "A=\x00B", string(noise), strings.Repeat("x", 4096),
		strings.Repeat("READY=1\n", 100), "WATCHDOG_USEC=-1", "MAINPID=99999999999999999999", "FDSTORE=1\nFDNAME=", "ERRNO=2",
	} {
		s.send(message)
	}
	s.send(strings.Repeat("x", 5000))
	s.send(strings.Repeat("x", 100_000))
	s.do(request{Do: "push", Count: 200, Lines: []string{"READY=1"}}) // descriptors that nobody asked for
	s.push("y", 1)
	s.do(request{Do: "barrier"})
	s.exit(0)
	assert.Equal(t, []string{"y"}, h.next().Names)
	h.stop()
}

func TestAFloodDoesNotKeepTheServiceFromItsManager(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StoreMax: 5, StopTimeout: patience})
	s := h.next()
	stranger := &storetest.Notifier{Socket: s.variable("NOTIFY_SOCKET")}
	began, over := time.Now(), make(chan struct{})
	var ended []chan struct{}
	for range 4 {
		done := make(chan struct{})
		ended = append(ended, done)
		go func() { // ends with over
			defer close(done)
			for {
				select {
				case <-over:
					return
				default:
					_ = pushEventfds(stranger, 20, "FDSTORE=1")
				}
			}
		}()
	}
	for range 20 {
		s.push("x", 1)
		s.say("FDSTOREREMOVE=1", "FDNAME=x")
	}
	s.push("y", 1)
	s.kill(unix.SIGKILL)
	next := h.next()
	assert.Equal(t, []string{"y"}, next.Names)
	h.signal(unix.SIGTERM)
	assert.Zero(t, h.code(), "signals get through, too")
	close(over)
	for _, done := range ended {
		<-done
	}
	lines := count(h.log(), "none of ours")
	assert.LessOrEqual(t, lines, 1+int(time.Since(began)/time.Second), "one line a second")
	assert.Positive(t, lines)
}

func TestAnotherUserHasNoPlaceInADirectory(t *testing.T) {
	t.Parallel()
	if unix.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	h := newHouse(t, keeper.Options{StopTimeout: patience})
	h.options.Dir = h.dir + "/keeper"
	require.NoError(t, unix.Chmod(h.dir, 0o755))
	h.start()
	s := h.next()
	for _, socket := range []string{s.variable("NOTIFY_SOCKET"), s.variable("KEEPER_SOCKET")} {
		out, err := exec.Command("setpriv", "--reuid=65534", "--clear-groups", "test", "-e", socket).CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%s", out)
	}
	h.stop()
}

func TestWhoAsksForTheJobMustBeOfTheService(t *testing.T) {
	h := live(t, keeper.Options{StopTimeout: patience})
	s := h.next()
	t.Setenv("KEEPER_SOCKET", s.variable("KEEPER_SOCKET"))
	client := keeper.ClientFromEnv()
	_, err := client.Job(t.Context())
	require.Error(t, err)
	assert.Equal(t, "restart", s.do(request{Do: "job"}).Text)
	h.stop()
}

func TestManyAskForTheJobAtOnce(t *testing.T) {
	t.Parallel()
	h := live(t, keeper.Options{StopTimeout: patience})
	s := h.next()
	for range 100 { // each stays connected
		s.do(request{Do: "follow"})
	}
	for range 20 {
		assert.Equal(t, "restart", s.do(request{Do: "job"}).Text)
	}
	assert.Less(t, descriptors(t, h.keeper.Process.Pid), 64+30)
	assert.Equal(t, strconv.Itoa(h.keeper.Process.Pid), strconv.Itoa(s.Parent))
	h.stop()
}
