package systemd

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func init() {
	children["log"] = func() int {
		var level slog.LevelVar
		log := slog.New(newLogHandler(LogOptions{Identifier: "holdfast", Level: &level}, os.Getenv("JOURNAL")))
		log.Debug("hidden")
		log.Info("hello", "listener", "web")
		level.Set(slog.LevelError)
		log.Info("hidden")
		return 0
	}
	children["many lines"] = func() int {
		log := slog.New(NewLogHandler(LogOptions{}))
		for i := range 20_000 {
			log.Info("line", "number", i)
		}
		fmt.Println("done")
		_, _ = io.ReadAll(os.Stdin) // until stderr is read
		log.Info("last")
		return 0
	}
}

// logChild runs a child of this test binary with the given stderr.
func logChild(child string, stderr *os.File, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "SYSTEMD_TEST_CHILD="+child, "GORACE=atexit_sleep_ms=0",
		"JOURNAL_STREAM=", "DEBUG_INVOCATION=")
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = stderr
	return cmd
}

// streamOf is the variable by which systemd says that a file is the journal.
func streamOf(t *testing.T, f *os.File) string {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Stat(f.Name(), &st))
	return fmt.Sprintf("JOURNAL_STREAM=%d:%d", st.Dev, st.Ino)
}

func TestWhereTheLogGoes(t *testing.T) {
	const textHandler = "level=INFO msg=hello listener=web\n"
	for _, tt := range []struct {
		name    string
		env     func(t *testing.T, stderr *os.File) []string
		stderr  string
		journal bool
	}{
		{name: "a file", stderr: textHandler},
		{
			name: "debug invocation", stderr: "level=DEBUG msg=hidden\n" + textHandler + "level=INFO msg=hidden\n",
			env: func(*testing.T, *os.File) []string { return []string{"DEBUG_INVOCATION=1"} },
		},
		{
			name: "the journal", journal: true,
			env: func(t *testing.T, stderr *os.File) []string { return []string{streamOf(t, stderr)} },
		},
		{
			name: "a stderr that is no longer the journal", stderr: textHandler,
			env: func(*testing.T, *os.File) []string { return []string{"JOURNAL_STREAM=1:1"} },
		},
		{
			name: "garbage in JOURNAL_STREAM", stderr: textHandler,
			env: func(*testing.T, *os.File) []string { return []string{"JOURNAL_STREAM=garbage"} },
		},
		{
			name: "the journal, out of reach", stderr: "<6>hello listener=web\n",
			env: func(t *testing.T, stderr *os.File) []string {
				return []string{streamOf(t, stderr), "JOURNAL=/nonexistent/socket"}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "socket")
			journald := datagrams(t, socket)
			stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
			require.NoError(t, err)
			defer stderr.Close()
			env := []string{"JOURNAL=" + socket}
			if tt.env != nil {
				env = append(env, tt.env(t, stderr)...)
			}
			require.NoError(t, logChild("log", stderr, env...).Run())

			text, err := os.ReadFile(stderr.Name())
			require.NoError(t, err)
			assert.Equal(t, tt.stderr, withoutTimes(string(text)))
			if tt.journal {
				got := decode(t, next(t, journald))
				assert.Equal(t, "hello listener=web", got["MESSAGE"])
				assert.Equal(t, "web", got["LISTENER"])
				assert.Equal(t, "holdfast", got["SYSLOG_IDENTIFIER"])
			}
		})
	}
}

func withoutTimes(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "time=") {
			_, line, _ = strings.Cut(line, " ")
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestATerminalGetsLinesForPeople(t *testing.T) {
	master, slave := openTerminal(t)
	require.NoError(t, logChild("log", slave).Run())
	b := make([]byte, 200)
	n, err := master.Read(b)
	require.NoError(t, err)
	assert.Regexp(t, `^\d\d:\d\d:\d\d\.\d{3} INFO  hello listener=web\r\n$`, string(b[:n]))
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, master.Close()) })
	conn, err := master.SyscallConn()
	require.NoError(t, err)
	var number int
	require.NoError(t, conn.Control(func(fd uintptr) {
		require.NoError(t, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
		number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		require.NoError(t, err)
	}))
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, slave.Close()) })
	return master, slave
}

func TestAStderrThatNobodyReadsDoesNotStopTheService(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd := logChild("many lines", w)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	stuck := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()

	done := make([]byte, 5)
	_, err = io.ReadFull(stdout, done)
	require.NoError(t, err, "the service hangs")
	written := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(r)
		written <- b
	}()
	require.Eventually(t, func() bool { return unread(r) == 0 }, 5*time.Second, time.Millisecond)
	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait())

	lines := bytes.Split(bytes.TrimSpace(<-written), []byte("\n"))
	require.Greater(t, len(lines), 3)
	assert.Contains(t, string(lines[len(lines)-1]), "msg=last")
	var dropped int
	_, err = fmt.Sscanf(string(lines[len(lines)-2]), "%d log lines dropped: stderr did not take them", &dropped)
	require.NoError(t, err, "%s", lines[len(lines)-2])
	assert.Equal(t, 20_000+1, len(lines)-1+dropped, "each line is written or counted")
}

// unread is how many bytes wait in a pipe; -1 if that cannot be told.
func unread(pipe *os.File) int {
	n := -1
	conn, err := pipe.SyscallConn()
	if err != nil {
		return n
	}
	_ = conn.Control(func(fd uintptr) {
		if waiting, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
			n = waiting
		}
	})
	return n
}

func TestAStderrWithoutAReaderDoesNotKillTheService(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	out, err := logChild("many lines", w).Output()
	require.NoError(t, err)
	require.NoError(t, w.Close())
	assert.Equal(t, "done\n", string(out))
}

func TestLongLinesAreCut(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	require.NoError(t, err)
	defer f.Close()
	w := &lineWriter{file: f}
	line := []byte(strings.Repeat("x", maxLine) + "\n")
	n, err := w.Write(line)
	require.NoError(t, err)
	assert.Equal(t, maxLine+1, n)
	text, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	assert.Len(t, text, maxLine)
	assert.True(t, bytes.HasSuffix(text, []byte("x…\n")))
	assert.Equal(t, byte('x'), line[maxLine-1], "the caller's line is not changed")
}
