package sock_test

import (
	"bufio"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func socketPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "x.sock")
}

// answers tells whether a client gets through to the socket at path.
func answers(path string) bool {
	c, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

// leaveStale leaves a socket file on which nobody answers, as kill -9 does.
func leaveStale(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, makeSocket(t, unix.AF_UNIX, unix.SOCK_STREAM, 0, &unix.SockaddrUnix{Name: path}).Close())
}

func TestListenUnixComesAndGoesWithItsFile(t *testing.T) {
	path := socketPath(t)
	l := mustListen(t, sock.Unix(path), sock.Options{})
	assert.Equal(t, sock.Unix(path), l.Addr())
	assert.True(t, answers(path))
	require.NoError(t, l.Close())
	assert.NoFileExists(t, path)
	require.NoError(t, l.Close(), "a second Close is nothing")
}

func TestListenAbstract(t *testing.T) {
	name := "@" + socketPath(t)
	l := mustListen(t, sock.Unix(name), sock.Options{})
	assert.Equal(t, "unix "+name, l.Addr().String())
	assert.True(t, answers(name))
	_, err := sock.Listen(sock.Unix(name), sock.Options{})
	require.ErrorIs(t, err, unix.EADDRINUSE)
}

func TestListenUnixMode(t *testing.T) {
	for _, tt := range []struct{ mode, want fs.FileMode }{
		{0, 0o666}, {0o600, 0o600}, {0o660, 0o660},
	} {
		path := socketPath(t)
		mustListen(t, sock.Unix(path), sock.Options{Mode: tt.mode})
		st, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, tt.want, st.Mode().Perm())
	}
}

func TestListenUnixReplacesWhatAKilledProcessLeft(t *testing.T) {
	path := socketPath(t)
	leaveStale(t, path)
	mustListen(t, sock.Unix(path), sock.Options{})
	assert.True(t, answers(path))
}

func TestListenUnixNeverTakesAPathThatSomebodyHas(t *testing.T) {
	live, full, datagram := socketPath(t), socketPath(t), socketPath(t)
	mustListen(t, sock.Unix(live), sock.Options{})
	listening(t, makeSocket(t, unix.AF_UNIX, unix.SOCK_STREAM, 0, &unix.SockaddrUnix{Name: full}))
	fillQueue(t, full)
	makeSocket(t, unix.AF_UNIX, unix.SOCK_DGRAM, 0, &unix.SockaddrUnix{Name: datagram})

	self, err := os.ReadFile("/proc/self/comm")
	require.NoError(t, err)
	for path, by := range map[string]string{
		live:     fmt.Sprintf("process %d (%s)", os.Getpid(), strings.TrimSpace(string(self))),
		full:     "a process that does not accept",
		datagram: "a socket of another type",
	} {
		_, err := sock.Listen(sock.Unix(path), sock.Options{})
		require.ErrorIs(t, err, unix.EADDRINUSE)
		require.EqualError(t, err, "listen on unix "+path+": in use by "+by)
		assert.Equal(t, "another program listens there: ss -lxp src "+path, sock.Hint(err))
		assert.FileExists(t, path)
	}
}

// fillQueue connects until the accept queue takes no more.
func fillQueue(t *testing.T, path string) {
	t.Helper()
	for range 100 {
		raw, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		require.NoError(t, err)
		fd := sock.NewFD(raw)
		t.Cleanup(func() { assert.NoError(t, fd.Close()) })
		err = unix.Connect(raw, &unix.SockaddrUnix{Name: path})
		if err == unix.EAGAIN {
			return
		}
		require.NoError(t, err)
	}
	require.Fail(t, "the queue never filled")
}

func TestListenUnixTakesTheLongestPath(t *testing.T) {
	dir := t.TempDir()
	const longest = 107
	path := dir + "/" + strings.Repeat("x", longest-len(dir)-1)
	l := mustListen(t, sock.Unix(path), sock.Options{})
	assert.Equal(t, "unix "+path, l.Addr().String())
	assert.True(t, answers(path))
}

func TestListenUnixNeverRemovesOtherFiles(t *testing.T) {
	file := socketPath(t)
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	stale, link := socketPath(t), socketPath(t)
	leaveStale(t, stale)
	require.NoError(t, os.Symlink(stale, link))

	dangling := socketPath(t)
	require.NoError(t, os.Symlink("nowhere", dangling))

	for _, path := range []string{file, link, dangling, t.TempDir()} {
		_, err := sock.Listen(sock.Unix(path), sock.Options{})
		require.ErrorIs(t, err, sock.ErrNotSocketFile)
		assert.Equal(t, "remove it or choose another path", sock.Hint(err))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(text))
	assert.FileExists(t, stale)
}

func TestListenUnixFailsWithAHint(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/file"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, tt := range []struct {
		path string
		is   error
		hint string
	}{
		{"", unix.EINVAL, ""},
		{"@", unix.EINVAL, ""},
		{dir + "/\x00", unix.EINVAL, ""},
		{dir + strings.Repeat("/x", 108), unix.ENAMETOOLONG, "a Unix socket path has at most 107 bytes"},
		{file + "/x.sock", unix.ENOTDIR, ""},
		{dir + "/no/x.sock", unix.ENOENT, "there is no directory " + dir + "/no; in a unit RuntimeDirectory= makes one"},
	} {
		_, err := sock.Listen(sock.Unix(tt.path), sock.Options{})
		require.ErrorIs(t, err, tt.is, "%q", tt.path)
		assert.Equal(t, tt.hint, sock.Hint(err))
	}
}

func init() {
	children["forbidden directory"] = func() int {
		_, err := sock.Listen(sock.Unix(os.Args[1]), sock.Options{})
		fmt.Print(sock.Hint(err))
		return 0
	}
}

func TestListenUnixInADirectoryOfAnotherUser(t *testing.T) {
	const dir = "/sys/kernel" // nobody's, on every Linux, and readable
	got := child(t, "forbidden directory", dir+"/x.sock")
	assert.Regexp(t, "must be able to read and write /sys/kernel|/sys/kernel is read-only", got)
}

func TestCloseKeepsTheFileOfALaterInstance(t *testing.T) {
	path := socketPath(t)
	first := mustListen(t, sock.Unix(path), sock.Options{})
	require.NoError(t, os.Remove(path))
	mustListen(t, sock.Unix(path), sock.Options{})

	require.NoError(t, first.Close())
	assert.True(t, answers(path))
}

func TestCloseWhenTheDirectoryIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.Mkdir(dir, 0o700))
	l := mustListen(t, sock.Unix(dir+"/x.sock"), sock.Options{})
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, l.Close())
}

func TestCloseOfAnAdoptedSocketLeavesItToItsOwner(t *testing.T) {
	path := socketPath(t)
	owner := mustListen(t, sock.Unix(path), sock.Options{})
	raw, err := unix.FcntlInt(uintptr(owner.FD.Raw()), unix.F_DUPFD, 0)
	require.NoError(t, err)
	adopted, err := sock.Adopt(sock.NewFD(raw))
	require.NoError(t, err)
	assert.Equal(t, owner.Addr(), adopted.Addr())
	flags, err := unix.FcntlInt(uintptr(raw), unix.F_GETFD, 0)
	require.NoError(t, err)
	assert.Equal(t, unix.FD_CLOEXEC, flags)

	require.NoError(t, adopted.Close())
	assert.True(t, answers(path), "no unlink, no shutdown")
}

func TestAdoptLeavesTheDescriptorWithTheCallerWhenItFails(t *testing.T) {
	r, _ := openPipe(t)
	_, err := sock.Adopt(r)
	require.Error(t, err)
	assert.NotEqual(t, -1, r.Raw())
}

// Both find the stale file at the same moment; without a lock the second takes
// the path away from the first, which then listens where nobody can connect.
func TestOfManyThatStartTogetherOneGetsThePath(t *testing.T) {
	for range 20 {
		path := socketPath(t)
		leaveStale(t, path)
		listeners := make([]*sock.Listener, 8)
		var wg sync.WaitGroup
		for i := range listeners {
			wg.Go(func() {
				l, err := sock.Listen(sock.Unix(path), sock.Options{})
				if err != nil {
					assert.ErrorIs(t, err, unix.EADDRINUSE)
					return
				}
				listeners[i] = l
			})
		}
		wg.Wait()
		var won []*sock.Listener
		for _, l := range listeners {
			if l != nil {
				won = append(won, l)
			}
		}
		require.Len(t, won, 1)
		assert.True(t, answers(path))
		require.NoError(t, won[0].Close())
		assert.NoFileExists(t, path)
	}
}

func init() {
	children["listen and wait"] = func() int {
		_, err := sock.Listen(sock.Addr{Network: os.Args[1], Path: os.Args[2]}, sock.Options{})
		fmt.Println(err)
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		return 0
	}
}

// listenElsewhere is a process that listens at a Unix address. The caller kills it.
func listenElsewhere(t *testing.T, a sock.Addr) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", a.Network, a.Path)
	cmd.Env = append(os.Environ(), "SOCK_TEST_CHILD=listen and wait")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = stdin.Close() })
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "<nil>\n", line)
	return cmd
}

func TestKill9LeavesNoObstacle(t *testing.T) {
	path := socketPath(t)
	cmd := listenElsewhere(t, sock.Unix(path))

	_, err := sock.Listen(sock.Unix(path), sock.Options{})
	require.ErrorIs(t, err, unix.EADDRINUSE, "while it lives, the path is its own")
	require.ErrorContains(t, err, fmt.Sprintf("in use by process %d (", cmd.Process.Pid))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // says that it was killed
	require.FileExists(t, path)

	mustListen(t, sock.Unix(path), sock.Options{})
	assert.True(t, answers(path))
}

func TestADirectoryLockedByAStrangerIsReportedAndNotWaitedForForEver(t *testing.T) {
	path := socketPath(t)
	raw, err := unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	stranger := sock.NewFD(raw)
	defer stranger.Close()
	require.NoError(t, unix.Flock(raw, unix.LOCK_EX))

	_, err = sock.Listen(sock.Unix(path), sock.Options{})
	require.ErrorIs(t, err, unix.EWOULDBLOCK)
	assert.Equal(t, "another program holds a lock on "+filepath.Dir(path), sock.Hint(err))
	assert.NoFileExists(t, path)
}
