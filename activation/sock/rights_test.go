package sock_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// packetPair is two connected sockets that keep the bounds of messages.
func packetPair(t *testing.T) (a, b *sock.FD) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	a, b = sock.NewFD(p[0]), sock.NewFD(p[1])
	t.Cleanup(func() {
		assert.NoError(t, a.Close())
		assert.NoError(t, b.Close())
	})
	return a, b
}

// copies is one descriptor n times.
func copies(fd *sock.FD, n int) []int {
	fds := make([]int, n)
	for i := range fds {
		fds[i] = fd.Raw()
	}
	return fds
}

func closeAll(t *testing.T, fds []*sock.FD) {
	t.Helper()
	for _, fd := range fds {
		assert.NoError(t, fd.Close())
	}
}

func TestDescriptorsArriveBesideTheirMessage(t *testing.T) {
	a, b := packetPair(t)
	r, w := openPipe(t)
	require.NoError(t, sock.SendRights(a.Raw(), []byte("two"), []int{r.Raw(), w.Raw()}))
	require.NoError(t, sock.SendRights(a.Raw(), []byte("none"), nil))

	buf := make([]byte, 16)
	m, err := sock.ReceiveRights(b.Raw(), buf)
	require.NoError(t, err)
	assert.Equal(t, "two", string(buf[:m.N]))
	require.Len(t, m.FDs, 2)
	assert.False(t, m.Cut || m.Lost)
	_, err = unix.Write(m.FDs[1].Raw(), []byte("!"))
	require.NoError(t, err)
	n, err := unix.Read(r.Raw(), make([]byte, 8))
	require.NoError(t, err)
	assert.Equal(t, 1, n, "the descriptors lead to other files")
	for _, fd := range m.FDs {
		flags, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_GETFD, 0)
		require.NoError(t, err)
		assert.Equal(t, unix.FD_CLOEXEC, flags)
	}
	closeAll(t, m.FDs)

	m, err = sock.ReceiveRights(b.Raw(), buf)
	require.NoError(t, err)
	assert.Equal(t, "none", string(buf[:m.N]))
	assert.Empty(t, m.FDs)

	_, err = sock.ReceiveRights(b.Raw(), buf)
	require.ErrorIs(t, err, unix.EAGAIN)
	require.NoError(t, a.Close())
	m, err = sock.ReceiveRights(b.Raw(), buf)
	require.NoError(t, err)
	assert.Equal(t, sock.Message{}, m, "the end")
	assert.ErrorIs(t, sock.SendRights(b.Raw(), []byte("x"), nil), unix.EPIPE)
}

func TestOneMessageHasRoomFor253Descriptors(t *testing.T) {
	a, b := packetPair(t)
	r, _ := openPipe(t)
	require.Error(t, sock.SendRights(a.Raw(), []byte("x"), copies(r, sock.MaxRights+1)))
	require.NoError(t, sock.SendRights(a.Raw(), []byte("x"), copies(r, sock.MaxRights)))
	m, err := sock.ReceiveRights(b.Raw(), make([]byte, 1))
	require.NoError(t, err)
	assert.Len(t, m.FDs, sock.MaxRights)
	assert.False(t, m.Lost)
	closeAll(t, m.FDs)
}

func TestAMessageThatIsTooLongIsMarked(t *testing.T) {
	a, b := packetPair(t)
	r, _ := openPipe(t)
	require.NoError(t, sock.SendRights(a.Raw(), []byte("too long"), copies(r, 3)))
	m, err := sock.ReceiveRights(b.Raw(), make([]byte, 3))
	require.NoError(t, err)
	assert.True(t, m.Cut)
	assert.Len(t, m.FDs, 3, "what is beside it must be closed all the same")
	closeAll(t, m.FDs)
}

func init() {
	children["receive with few descriptors"] = func() int {
		const limit = 32
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			fmt.Print(err)
			return 0
		}
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			fmt.Print(err)
			return 0
		}
		if err := sock.SendRights(p[0], []byte("x"), copies(sock.NewFD(p[0]), 100)); err != nil {
			fmt.Print(err)
			return 0
		}
		m, err := sock.ReceiveRights(p[1], make([]byte, 1))
		fmt.Print(err, " ", m.Lost, " ", len(m.FDs) > 0 && len(m.FDs) < limit)
		return 0
	}
}

func TestDescriptorsThatAProcessHasNoRoomForAreNotMissedSilently(t *testing.T) {
	assert.Equal(t, "<nil> true true", child(t, "receive with few descriptors"))
}

func TestAFullQueueIsEAGAIN(t *testing.T) {
	a, b := packetPair(t)
	block := []byte(strings.Repeat("x", 16<<10))
	var err error
	for range 1000 {
		if err = sock.SendRights(a.Raw(), block, nil); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, unix.EAGAIN)
	m, err := sock.ReceiveRights(b.Raw(), block)
	require.NoError(t, err)
	assert.Equal(t, len(block), m.N)
}

func init() {
	children["more descriptors under way than allowed"] = func() int {
		const limit = 64
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit})
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		for range 10 {
			if err == nil {
				err = sock.SendRights(p[0], []byte("x"), copies(sock.NewFD(p[0]), 60))
			}
		}
		fmt.Print(err)
		return 0
	}
}

func TestMoreDescriptorsUnderWayThanTheUserMayHaveIsETOOMANYREFS(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("other processes of this user would be disturbed")
	}
	assert.Equal(t, unix.ETOOMANYREFS.Error(), child(t, "more descriptors under way than allowed"))
}
