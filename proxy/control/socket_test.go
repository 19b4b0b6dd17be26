package control

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestSocketIsForItsUserOnly(t *testing.T) {
	path := filepath.Join(filepath.Dir(socketPath(t)), "made", "control.sock")
	before := unix.Umask(0) // the mode must not depend on it
	defer unix.Umask(before)

	socket, err := Listen(path)
	require.NoError(t, err)
	defer socket.Close()

	info, err := os.Lstat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.ModeSocket|0o600, info.Mode())
	info, err = os.Lstat(filepath.Dir(path))
	require.NoError(t, err)
	assert.Equal(t, fs.ModeDir|0o700, info.Mode())
}

func TestListenRefuses(t *testing.T) {
	dir := filepath.Dir(socketPath(t))
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("nowhere", link))
	datagram := filepath.Join(dir, "datagram")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: datagram})
	require.NoError(t, err)
	defer conn.Close()

	for name, c := range map[string]struct{ path, want string }{
		"abstract name":     {"@holdfast", "abstract"},
		"path too long":     {filepath.Join(dir, strings.Repeat("x", maxPath)), "the kernel takes 107"},
		"two levels to do":  {filepath.Join(dir, "a", "b", "control.sock"), "no such file or directory"},
		"file in the way":   {file, "not a socket is in the way"},
		"dangling link":     {link, "not a socket is in the way"},
		"file as directory": {filepath.Join(file, "control.sock"), "not a directory"},
		"datagram socket":   {datagram, "another program is in the way"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Listen(c.path)
			require.ErrorContains(t, err, "control socket "+c.path+": ")
			require.ErrorContains(t, err, c.want)
		})
	}
	assert.FileExists(t, file)
	assert.NoDirExists(t, filepath.Join(dir, "a"))
	_, err = os.Lstat(datagram)
	assert.NoError(t, err)
}

func TestLongestPathIsTaken(t *testing.T) {
	dir := filepath.Dir(socketPath(t))
	path := filepath.Join(dir, strings.Repeat("x", maxPath-len(dir)-1))
	require.Len(t, path, maxPath)
	socket, err := Listen(path)
	require.NoError(t, err)
	require.NoError(t, socket.Close())
	assert.NoFileExists(t, path)
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := socketPath(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false) // as kill -9 would
	require.NoError(t, dead.Close())

	socket, err := Listen(path)
	require.NoError(t, err)
	require.NoError(t, socket.Close())
}

func TestLiveInstanceIsNotReplaced(t *testing.T) {
	path := socketPath(t)
	startServer(t, path, quiet())

	_, err := Listen(path)
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, "in use by process "+strconv.Itoa(os.Getpid()))
	_, err = ask(path)
	assert.NoError(t, err)
}

func TestHungInstanceIsNotReplaced(t *testing.T) {
	path := socketPath(t)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	require.NoError(t, unix.Listen(fd, 0)) // nobody accepts, and the queue holds one
	first, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer first.Close()

	_, err = Listen(path)
	require.ErrorIs(t, err, ErrInUse)
	assert.ErrorContains(t, err, "does not accept")
}

func TestOfManyStartsOnOneStaleSocketExactlyOneWins(t *testing.T) {
	path := socketPath(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	require.NoError(t, dead.Close())

	const starts = 20
	sockets, errs := make([]*Socket, starts), make([]error, starts)
	var group sync.WaitGroup
	for i := range starts {
		group.Go(func() { sockets[i], errs[i] = Listen(path) })
	}
	group.Wait()

	won := 0
	for i := range starts {
		if errs[i] == nil {
			won++
			defer sockets[i].Close()
			continue
		}
		require.ErrorIs(t, errs[i], ErrInUse)
	}
	require.Equal(t, 1, won)
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

func TestCloseRemovesOnlyItsOwnFile(t *testing.T) {
	path := socketPath(t)
	old, err := Listen(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	replacement, err := Listen(path)
	require.NoError(t, err)

	require.NoError(t, old.Close())
	conn, err := net.Dial("unix", path)
	require.NoError(t, err, "the replacement's file is gone")
	require.NoError(t, conn.Close())

	require.NoError(t, replacement.Close())
	assert.NoFileExists(t, path)
	assert.NoError(t, replacement.Close(), "a second close does nothing")
}

func TestCloseBearsAVanishedDirectory(t *testing.T) {
	path := filepath.Join(filepath.Dir(socketPath(t)), "made", "control.sock")
	socket, err := Listen(path)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Dir(path)))
	assert.NoError(t, socket.Close())
}

func TestUnfriendlyLockHolderDelaysButDoesNotHang(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	lock, err := lockDir(filepath.Dir(path))
	require.NoError(t, err)
	defer lock.Close()

	_, err = Listen(path)
	assert.ErrorContains(t, err, "still held by another process")
}
