package daemon

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// clients are so many who are served at a listener.
func (s *site) clients(t *testing.T, listener string, count int) (all []net.Conn) {
	t.Helper()
	for range count {
		conn := s.dial(t, listener)
		requireEcho(t, conn)
		all = append(all, conn)
	}
	return all
}

func TestConnectionsOfAVaultThatCannotBeReadCountAsLost(t *testing.T) {
	t.Parallel()
	m := storetest.Start(t, 20)
	s := echoSite(t)
	s.write(t)
	first := s.live(t, m)
	first.status()
	clients := s.clients(t, "web", 3)
	first.end(unix.SIGKILL)
	require.NoError(t, m.Notifier().Barrier(t.Context()))
	passed := slices.DeleteFunc(m.Pass(), func(h fdstore.Held) bool {
		isTable := h.Name == vault.TableName
		if isTable {
			assert.NoError(t, h.FD.Close())
		}
		return isTable
	})
	second := s.lifeOf(t, m.Socket(), passed)
	now := second.status().Connections
	assert.EqualValues(t, 3, now.Lost)
	assert.Zero(t, now.Restored)
	for _, conn := range clients {
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err := conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
}

// Those that have lived on count before anybody else is accepted.
func TestALimitOfConnectionsHoldsOverRestarts(t *testing.T) {
	t.Parallel()
	const most = 20
	m := storetest.Start(t, 20)
	s := echoSite(t)
	s.more = []string{"max_connections = " + strconv.Itoa(most)}
	s.write(t)
	l := s.live(t, m)
	l.status()
	clients := s.clients(t, "web", most)
	for range 4 {
		l.end(unix.SIGKILL)
		for range most {
			s.dial(t, "web") // waits
		}
		l = s.live(t, m)
		require.Eventually(t, func() bool { return l.status().Connections.Restored == most }, patience, time.Millisecond)
		require.EqualValues(t, most, l.status().Connections.Active)
	}
	for _, conn := range clients {
		requireEcho(t, conn)
	}
	waiting := s.dial(t, "web")
	for _, conn := range clients {
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool { return l.status().Connections.Accepted > most }, patience, time.Millisecond, "there is room again")
	require.NoError(t, waiting.Close())
}

// A replacement on trial accepts beside connections that the original still has.
func TestALimitOfConnectionsHoldsOnTrial(t *testing.T) {
	t.Parallel()
	m := storetest.Start(t, 20)
	s := echoSite(t)
	s.more = []string{"max_connections = 2"}
	s.write(t)
	first := s.lifeOf(t, m.Socket(), nil)
	first.status()
	clients := s.clients(t, "web", 2)
	second := s.lifeOf(t, m.Socket(), nil, "TRIAL=2s")
	first.log.eventually(t, "the replacement accepts")
	waiting := s.dial(t, "web")
	require.Eventually(t, func() bool { return second.status().Connections.Restored == 2 }, patience, time.Millisecond)
	now := second.status().Connections
	assert.Equal(t, []int64{2, 2}, []int64{now.Active, now.Accepted})
	require.NoError(t, clients[0].Close())
	requireEcho(t, waiting)
	requireEcho(t, clients[1])
	first.gone()
}

// The time of a removed listener's connections does not begin anew with each process.
func TestATimeToDrainGoesOnOverRestarts(t *testing.T) {
	t.Parallel()
	m := storetest.Start(t, 20)
	s := echoSite(t)
	s.listen["goes"] = []string{freeAddress(t)}
	s.global = []string{"drain_timeout = '5s'"}
	s.write(t)
	l := s.live(t, m)
	l.status()
	client := s.clients(t, "goes", 1)[0]
	ended := make(chan error, 1)
	go func() {
		_, err := client.Read(make([]byte, 1))
		ended <- err
	}()
	delete(s.listen, "goes")
	s.write(t)
	require.NoError(t, l.reload())
	require.NoError(t, client.SetDeadline(time.Now().Add(3*patience)))
	for lives := 1; ; lives++ {
		select {
		case err := <-ended:
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
			assert.Greater(t, lives, 1)
			return
		case <-time.After(time.Second):
		}
		l.end(unix.SIGKILL)
		l = s.live(t, m)
		l.status()
	}
}

// Who comes while it is on trial does not get the descriptors that it needs for those of
// the original.
func TestAReplacementWithFewDescriptorsGoesOnWithAllConnections(t *testing.T) {
	t.Parallel()
	const descriptors, clients = "NOFILE=1024", 300
	m := storetest.Start(t, 100)
	s := echoSite(t)
	s.write(t)
	first := s.lifeOf(t, m.Socket(), nil, descriptors)
	first.status()
	kept := s.clients(t, "web", clients)
	require.EqualValues(t, clients, first.status().Connections.Kept)
	second := s.lifeOf(t, m.Socket(), nil, descriptors, "TRIAL=2s")
	first.log.eventually(t, "the replacement accepts")
	var all []net.Conn
	for range 2 * clients {
		all = append(all, s.dial(t, "web"))
	}
	second.log.eventually(t, "msg=serving")
	now := second.status().Connections
	assert.EqualValues(t, clients, now.Restored)
	assert.Zero(t, now.Lost)
	for _, conn := range kept {
		requireEcho(t, conn)
		require.NoError(t, conn.Close())
	}
	for _, conn := range all { // there is room for more and more of them
		requireEcho(t, conn)
		require.NoError(t, conn.Close())
	}
}

// A store without a place for the vault: nobody but this process has it.
func TestConnectionsThatTheStoreHasNoRoomForAreNotCutAsIfTheyWereWhole(t *testing.T) {
	t.Parallel()
	unheld := func(t *testing.T, s *site, m *storetest.Manager, environ ...string) (*life, net.Conn) {
		t.Helper()
		s.server = echo(t).String()
		s.global = []string{"on_term = 'keep'", "drain_timeout = 'never'"}
		s.write(t)
		l := s.live(t, m, environ...)
		require.Equal(t, status.HolderSystemd, l.status().Holder)
		l.log.eventually(t, "connections end with this process")
		return l, s.clients(t, "web", 1)[0]
	}
	t.Run("by a restart", func(t *testing.T) {
		t.Parallel()
		l, client := unheld(t, newSite(t), storetest.Start(t, 3), "FDSTORE=3")
		l.signal(unix.SIGTERM)
		require.Eventually(t, func() bool {
			now, err := control.NewClient(l.control).Status(t.Context())
			return err == nil && now.State == status.Draining
		}, patience, time.Millisecond, "it does not drain")
		requireEcho(t, client)
		require.NoError(t, client.Close())
		l.awaitEnd()
	})
	t.Run("by a kill", func(t *testing.T) {
		t.Parallel()
		l, client := unheld(t, newSite(t), storetest.Start(t, 3), "FDSTORE=3")
		l.end(unix.SIGKILL)
		require.NoError(t, client.SetDeadline(time.Now().Add(patience)))
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
	t.Run("and go on when it has", func(t *testing.T) {
		t.Parallel()
		m := storetest.Start(t, 3)
		s := newSite(t)
		l, client := unheld(t, s, m)
		m.Resize(20)
		require.Eventually(t, func() bool { return l.status().Connections.Kept == 1 }, 2*keepPatience, 10*time.Millisecond)
		l.end(unix.SIGKILL)
		l = s.live(t, m)
		requireEcho(t, client)
		require.NoError(t, client.(*net.TCPConn).CloseWrite())
		n, err := client.Read(make([]byte, 1))
		assert.Zero(t, n)
		require.ErrorIs(t, err, io.EOF, "it ends in order")
	})
}

// A process that has had no descriptors to open it.
func TestAStopResetsWhatIsInAVaultThatWasNotOpened(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	peer, err := net.Dial("tcp", server.Addr().String())
	require.NoError(t, err)
	defer peer.Close()
	conn, err := server.Accept()
	require.NoError(t, err)
	file, err := conn.(*net.TCPConn).File()
	require.NoError(t, err)
	v, err := vault.New(vault.Options{Writers: 1, Log: quiet})
	require.NoError(t, err)
	slot, _, ok := v.Writer(0).Take()
	require.True(t, ok)
	require.True(t, v.Writer(0).Keep(slot, int32(file.Fd()), -1))
	require.NoError(t, errors.Join(file.Close(), conn.Close()))
	c := connections{log: quiet}
	files, release := v.Files()
	c.left, err = copyFiles(files)
	require.NoError(t, err)
	release()
	require.NoError(t, v.Close())

	c.end()
	assert.Empty(t, c.left)
	require.NoError(t, peer.SetDeadline(time.Now().Add(patience)))
	_, err = peer.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}
