package cli

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal and returns the end that a program sees, see
// pty(7).
func terminal(t *testing.T) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { assert.NoError(t, master.Close()) })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, slave.Close()) })
	return slave
}

func TestColoursOnlyOnATerminalThatWantsThem(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	tty := terminal(t)

	assert.True(t, colours(tty, []string{"TERM=xterm", "NO_COLOR="}).on)
	assert.False(t, colours(tty, []string{"TERM=xterm", "NO_COLOR=1"}).on)
	assert.False(t, colours(tty, []string{"TERM=dumb"}).on)
	assert.False(t, colours(file, []string{"TERM=xterm"}).on)
}
