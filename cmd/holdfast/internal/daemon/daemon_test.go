package daemon

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/proxy"
	"github.com/holdfast-proxy/holdfast/proxy/config"
)

func TestIdleIsOverOnlyWithoutConnectionsForTheWholeTime(t *testing.T) {
	w := idleWatch{after: time.Hour, since: time.Now().Add(-2 * time.Hour)}
	assert.True(t, w.over(0, 0))
	assert.False(t, w.over(1, 1), "one is alive")
	assert.False(t, w.over(0, 1), "it has only just left")
	w.since = time.Now().Add(-2 * time.Hour)
	assert.False(t, w.over(0, 2), "one came and went since the last look")
	w.since = time.Now().Add(-2 * time.Hour)
	assert.True(t, w.over(0, 2))
}

func TestExitIdleNeedsEverySocketFromSystemd(t *testing.T) {
	var out strings.Builder
	d := &daemon{config: &config.Config{}, log: slog.New(slog.NewTextHandler(&out, nil))}
	d.config.Global.ExitIdle = time.Minute
	shared, own := proxy.Socket{Label: "tcp 127.0.0.1:80", Shared: true}, proxy.Socket{Label: "tcp 127.0.0.1:81", Listener: "own"}

	w := d.newIdleWatch([]proxy.Socket{shared, shared})
	assert.NotNil(t, w.due())
	w.stop()
	assert.Empty(t, out.String())

	w = d.newIdleWatch([]proxy.Socket{shared, own})
	assert.Nil(t, w.due())
	assert.Contains(t, out.String(), `socket="tcp 127.0.0.1:81"`)

	d.config.Global.ExitIdle = 0
	w = d.newIdleWatch([]proxy.Socket{shared})
	assert.Nil(t, w.due())
}

func TestEveryConfiguredAddressIsOneSocket(t *testing.T) {
	for text, want := range map[string]sock.Addr{
		"tcp://127.0.0.1:80": sock.TCP(netip.MustParseAddrPort("127.0.0.1:80")),
		"tcp://[::1]:80":     sock.TCP(netip.MustParseAddrPort("[::1]:80")),
		"tcp://:80":          sock.TCP(netip.AddrPortFrom(netip.Addr{}, 80)),
		"unix:///run/x":      sock.Unix("/run/x"),
		"unix://@x":          sock.Unix("@x"),
	} {
		a, err := config.ParseAddress(text)
		require.NoError(t, err)
		assert.Equal(t, want, socketAddr(a), text)
	}
}

func TestAFailedBindLeavesNothingBound(t *testing.T) {
	free, err := sock.Listen(sock.TCP(netip.MustParseAddrPort("127.0.0.1:0")), sock.Options{})
	require.NoError(t, err)
	taken, err := sock.Listen(sock.TCP(netip.MustParseAddrPort("127.0.0.1:0")), sock.Options{})
	require.NoError(t, err)
	defer taken.Close()
	port := free.Info.Addr.AddrPort.Port()
	require.NoError(t, free.Close())

	cfg := &config.Config{Listeners: []config.Listener{
		{Name: "good", Listen: []config.Address{{Network: "tcp", Host: "127.0.0.1", Port: port}}},
		{Name: "bad", Listen: []config.Address{{Network: "tcp", Host: "127.0.0.1", Port: taken.Info.Addr.AddrPort.Port()}}},
	}}
	log := slog.New(slog.DiscardHandler)
	_, err = acquire(cfg, &activation.Source{}, log)
	require.ErrorIs(t, err, unix.EADDRINUSE)

	cfg.Listeners = cfg.Listeners[:1]
	sockets, err := acquire(cfg, &activation.Source{}, log)
	require.NoError(t, err, "the good one was given back")
	require.Len(t, sockets, 1)
	assert.False(t, sockets[0].Shared)
	require.NoError(t, closeAll(sockets))
}

func TestDescriptorsAreRaisedToTheHardLimit(t *testing.T) {
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	low := before
	low.Cur = before.Max / 2
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	got := raiseDescriptors(slog.New(slog.DiscardHandler))
	assert.EqualValues(t, before.Max, got)
	var after unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &after))
	assert.Equal(t, before.Max, after.Cur)
}
