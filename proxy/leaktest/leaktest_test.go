package leaktest

import (
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// leakVariable makes the test binary one whose only test leaks what it names.
const leakVariable = "LEAKTEST_TEST_LEAK"

func TestMain(m *testing.M) { Main(m) }

var leaks = map[string]func() error{
	"nothing": func() error { return nil },
	"socket": func() error {
		_, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	},
	"pipe": func() error { return unix.Pipe2(make([]int, 2), unix.O_CLOEXEC) },
	"epoll instance": func() error {
		_, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		return err
	},
	"goroutine": func() error {
		go func() { select {} }()
		return nil
	},
}

func TestLeak(t *testing.T) {
	if leak := leaks[os.Getenv(leakVariable)]; leak != nil {
		require.NoError(t, leak())
	}
}

func TestWhatIsLeftOpenFailsTheRun(t *testing.T) {
	for name, word := range map[string]string{
		"nothing": "PASS", "socket": "descriptor left open: ", "pipe": "pipe:[", "epoll instance": "anon_inode:[eventpoll]",
		"goroutine": "found unexpected goroutines",
	} {
		t.Run(name, func(t *testing.T) {
			run := exec.Command(os.Args[0], "-test.run=^TestLeak$")
			run.Env = append(os.Environ(), leakVariable+"="+name, "GORACE=atexit_sleep_ms=0")
			out, err := run.CombinedOutput()
			assert.Equal(t, name == "nothing", err == nil, "%s", out)
			assert.Contains(t, string(out), word)
		})
	}
}

func TestTheRuntimesOwnDescriptorsAreNoLeak(t *testing.T) {
	before := Descriptors()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	assert.Len(t, Opened(before), 1)
	require.NoError(t, l.Close())
	assert.Empty(t, Opened(before))
}
