package daemon

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// silentNameServer makes this process ask a name server that never answers. asked
// is closed at the first question.
func silentNameServer(t *testing.T) (asked <-chan struct{}) {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	questions, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if _, _, err := server.ReadFrom(make([]byte, 512)); err == nil {
			close(questions)
		}
	}()
	// The resolver goes on in the background when nobody wants its answer any
	// more: the end of this context ends it.
	life, end := context.WithCancel(context.Background())
	net.DefaultResolver.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		if life.Err() != nil {
			return nil, net.ErrClosed
		}
		conn, err := new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
		if err == nil {
			context.AfterFunc(life, func() { _ = conn.Close() })
		}
		return conn, err
	}
	t.Cleanup(func() {
		net.DefaultResolver.Dial = nil
		end()
		assert.NoError(t, server.Close())
		<-ended
	})
	return questions
}

func TestAStopWhileNamesAreLookedUpIsImmediate(t *testing.T) {
	asked, told := silentNameServer(t), manager(t)
	dir := shortDir(t)
	cfg := configIn(dir)
	cfg.Upstreams[0].Servers = []config.Address{{Network: "tcp", Host: "db.test", Port: 1}}
	r := serving(t, cfg)
	select {
	case <-asked:
	case <-time.After(patience):
		require.Fail(t, "no name is looked up")
	}
	r.signal(t, unix.SIGTERM)
	r.end(t)
	assert.NotContains(t, r.log.String(), "look-up failed: timed out")
	assert.Equal(t, "STOPPING=1", told(), "it never was ready")
	assert.Empty(t, filesIn(t, dir))
}
