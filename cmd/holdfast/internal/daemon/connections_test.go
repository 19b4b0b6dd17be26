package daemon

import (
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
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
	s := newSite(t)
	s.server = echo(t).String()
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
