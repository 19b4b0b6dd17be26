package relay

import (
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A vault may come late, or again after it was let go in vain.
func TestWhoWasAcceptedByAFormerGenerationIsKeptLate(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 100)
	r := newRig(t, setup{}, b.address)
	r.clients(1)
	r.relay.Change(r.socket, r.other(2, nil))
	r.clients(1)
	fd, address := listenRaw(t, "tcp", 16)
	defer unix.Close(fd)
	drains := NewSocket(fd, 2, "drains", r.other(3, nil))
	r.relay.Serve(drains)
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, ping(t, c))
	<-r.relay.Release(drains, true)
	r.relay.Attach([]Vault{s, s}, s.common, nil)
	assert.Zero(t, r.relay.Stats().Unkept)
	require.Equal(t, Restored{Connections: 3}, r.successor(s))
}

// lateVariable makes the test below the process that is killed, with the address of its server.
const lateVariable = "RELAY_TEST_KEEPS_LATE"

// deadly is a vault in which nothing is kept any more.
type deadly struct{ *shelf }

func (deadly) Keep(uint32, int32, int32) bool {
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}

// A peer must not take the end of the process for that of the stream.
func TestAKillWhileAConnectionIsKeptLateResetsIt(t *testing.T) {
	if server := os.Getenv(lateVariable); server != "" {
		keepLate(t, server)
		return
	}
	received := make(chan error, 1)
	b := newBackend(t, "tcp", func(c net.Conn) {
		_, err := io.Copy(io.Discard, struct{ io.Reader }{c})
		received <- err
	})
	fd, address := listenRaw(t, "tcp", 16)
	killed := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	killed.Env = append(os.Environ(), lateVariable+"="+b.listener.Addr().String())
	killed.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "listening")}
	defer killed.ExtraFiles[0].Close()
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "half of a message")
	require.NoError(t, err)
	require.Error(t, killed.Run())
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	_, err = c.Read(make([]byte, 1))
	assert.ErrorIs(t, err, unix.ECONNRESET)
	assert.ErrorIs(t, <-received, unix.ECONNRESET)
}

// keepLate relays, and is killed when it keeps what it has relayed.
func keepLate(t *testing.T, server string) {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", server)
	require.NoError(t, err)
	r := newRig(t, setup{loops: 1}, addressOf(a))
	r.relay.ResetAtDeath(true)
	require.NoError(t, unix.SetNonblock(3, true))
	r.relay.Serve(NewSocket(3, 9, "inherited", r.service))
	eventually(t, "it has moved", func() bool { return r.relay.Stats().BytesIn > 0 })
	s := newShelf(t, 10)
	r.relay.Attach([]Vault{deadly{s}}, s.common, nil)
}
