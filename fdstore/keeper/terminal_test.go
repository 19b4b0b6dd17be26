package keeper_test

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
)

// TestATerminal types at a keeper. Its service may read what is typed, but for ^C.
func TestATerminal(t *testing.T) {
	t.Parallel()
	h := newHouse(t, keeper.Options{StopTimeout: patience, Restart: keeper.RestartNever})
	master, terminal := openTerminal(t)
	cmd := h.command("sh", "-c", `read line; trap "echo stopped; exit 0" INT; echo "it reads $line"; while :; do sleep 0.1; done`)
	cmd.Stdin, cmd.Stdout = terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	h.startAs(cmd)
	_, err := io.WriteString(master, "a line\n")
	require.NoError(t, err)
	seen := readUntil(t, master, "it reads a line")
	_, err = io.WriteString(master, "\x03")
	require.NoError(t, err)
	assert.Contains(t, seen+readUntil(t, master, "stopped"), "^C")
	assert.Zero(t, h.code())
}

func TestTheEndOfTheTerminalIsNotTheServices(t *testing.T) {
	t.Parallel()
	h := newHouse(t, keeper.Options{StopTimeout: patience})
	h.options.Dir = h.dir + "/keeper"
	master, terminal := openTerminal(t)
	cmd := h.command("/proc/self/exe", "agent", h.listener.Addr().String())
	cmd.Stdin, cmd.Stdout = terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	h.startAs(cmd)
	s := h.next()
	require.NoError(t, terminal.Close())
	require.NoError(t, master.Close()) // the session leader, which the keeper is, gets HUP
	h.eventually("it is passed on", func() bool { return len(s.do(request{Do: "caught"}).Names) == 1 })
	h.killed()
	require.True(t, running(s.PID))
	h.start()
	h.logs("taken on")
	h.stop()
}

func openTerminal(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	conn, err := master.SyscallConn()
	require.NoError(t, err)
	number := 0
	require.NoError(t, conn.Control(func(fd uintptr) {
		require.NoError(t, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
		number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		require.NoError(t, err)
	}))
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = terminal.Close()
		_ = master.Close()
	})
	return master, terminal
}

func readUntil(t *testing.T, r *os.File, text string) string {
	t.Helper()
	var seen strings.Builder
	buf := make([]byte, 1000)
	require.NoError(t, r.SetReadDeadline(time.Now().Add(patience)))
	for !strings.Contains(seen.String(), text) {
		n, err := r.Read(buf)
		seen.Write(buf[:n])
		require.NoError(t, err, seen.String())
	}
	return seen.String()
}
