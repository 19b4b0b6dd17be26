package keeper

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// keeperSaying answers each client with a word and, if it is to stay, nothing more until the
// test ends. Without a word it hangs up.
func keeperSaying(t *testing.T, word string, stays bool) *Client {
	t.Helper()
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "k"), Net: "unixpacket"})
	require.NoError(t, err)
	var serving sync.WaitGroup
	var open []net.Conn // until the end
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if word != "" {
				_, _ = conn.Write([]byte(word))
			}
			if stays {
				open = append(open, conn)
				continue
			}
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
		for _, conn := range open {
			_ = conn.Close()
		}
	})
	return clientOf(l.Addr().String())
}

// clientOf is that of a process which the keeper 7 has started.
func clientOf(address string) *Client {
	c, id := &Client{address: address}, "7"
	c.id.Store(&id)
	return c
}

// follow follows until the test ends.
func follow(t *testing.T, c *Client, renewed func()) {
	ctx, stop := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { c.Follow(ctx, renewed) })
	t.Cleanup(func() {
		stop()
		following.Wait()
	})
}

// It may be there before anybody has seen that the former one is gone.
func TestTheNextKeeperAnswersWhenItHasEverything(t *testing.T) {
	c := keeperSaying(t, "restart 8", true)
	require.True(t, c.Answers(), "the one that has started this process")
	begun, has := make(chan bool), make(chan struct{})
	follow(t, c, func() {
		begun <- c.Answers()
		<-has
	})
	assert.False(t, <-begun)
	assert.False(t, c.Answers())
	close(has)
	require.Eventually(t, c.Answers, 10*time.Second, time.Millisecond)
}

func TestWhatMeansThatThereIsNoKeeper(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for symptom, tt := range map[string]struct {
		ctx    context.Context
		client *Client
		absent bool
	}{
		"nobody has the name": {t.Context(), clientOf("@keeper-test/nobody"), true},
		"no file":             {t.Context(), clientOf(filepath.Join(t.TempDir(), "none")), true},
		"it hangs up":         {t.Context(), keeperSaying(t, "", false), true},
		"somebody else":       {t.Context(), keeperSaying(t, "hello", true), true},
		"it is busy":          {short, keeperSaying(t, "", true), false},
		"this process ends":   {ended, clientOf("@keeper-test/nobody"), false},
	} {
		_, _, err := tt.client.ask(tt.ctx)
		require.Error(t, err, symptom)
		assert.Equal(t, tt.absent, isAbsent(err), "%s: %v", symptom, err)
	}
}
