package sock_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// connect makes a client of the Unix socket at an address.
func connect(t *testing.T, a sock.Addr, typ int) *sock.FD {
	t.Helper()
	fd := makeSocket(t, unix.AF_UNIX, typ, 0, nil)
	require.NoError(t, unix.Connect(fd.Raw(), &unix.SockaddrUnix{Name: a.Path}))
	return fd
}

func TestThePeerIsWhoListensAndWhoConnects(t *testing.T) {
	l := mustListen(t, sock.UnixPacket(socketPath(t)), sock.Options{})
	client := connect(t, l.Addr(), unix.SOCK_SEQPACKET)
	raw, _, err := unix.Accept4(l.FD.Raw(), unix.SOCK_CLOEXEC)
	require.NoError(t, err)
	server := sock.NewFD(raw)
	defer server.Close()
	for _, fd := range []*sock.FD{client, server} {
		p, err := sock.PeerOf(fd.Raw())
		require.NoError(t, err)
		assert.Equal(t, sock.Peer{PID: os.Getpid(), UID: uint32(os.Geteuid())}, p)
		assert.Contains(t, p.String(), fmt.Sprintf("process %d (", os.Getpid()))
		assert.True(t, p.Trusted())
	}
}

func TestWhoIsTrusted(t *testing.T) {
	own := uint32(os.Geteuid())
	assert.True(t, sock.Peer{UID: 0}.Trusted())
	assert.True(t, sock.Peer{UID: own}.Trusted())
	assert.False(t, sock.Peer{UID: own + 1}.Trusted())
}

func TestWhatIsNoUnixSocketHasNoPeer(t *testing.T) {
	r, _ := openPipe(t)
	_, err := sock.PeerOf(r.Raw())
	require.ErrorIs(t, err, unix.ENOTSOCK)
	_, err = sock.PeerPidFD(r.Raw())
	require.Error(t, err)
	assert.Equal(t, "another process", sock.Peer{}.String(), "of another PID name space")
}

func TestAPeersPidfdTellsThatItHasGone(t *testing.T) {
	path := socketPath(t)
	cmd := listenElsewhere(t, sock.UnixPacket(path))
	pidfd, err := sock.PeerPidFD(connect(t, sock.UnixPacket(path), unix.SOCK_SEQPACKET).Raw())
	require.NoError(t, err)
	defer pidfd.Close()
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(pidfd.Raw()))
	require.NoError(t, err)
	assert.Contains(t, string(info), fmt.Sprintf("Pid:\t%d\n", cmd.Process.Pid))

	require.NoError(t, unix.PidfdSendSignal(pidfd.Raw(), unix.SIGKILL, nil, 0))
	_ = cmd.Wait() // says that it was killed
	assert.ErrorIs(t, unix.PidfdSendSignal(pidfd.Raw(), 0, nil, 0), unix.ESRCH)
}
