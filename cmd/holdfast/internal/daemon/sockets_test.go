package daemon

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/proxy/config"
)

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
	free, err := sock.Listen(socketAddr(loopback(0)), sock.Options{})
	require.NoError(t, err)
	taken, err := sock.Listen(socketAddr(loopback(0)), sock.Options{})
	require.NoError(t, err)
	defer taken.Close()
	port := free.Addr().AddrPort.Port()
	require.NoError(t, free.Close())

	cfg := &config.Config{Listeners: []config.Listener{
		{Name: "good", Listen: []config.Address{loopback(port)}},
		{Name: "bad", Listen: []config.Address{loopback(taken.Addr().AddrPort.Port())}},
	}}
	_, err = acquire(cfg, &activation.Source{}, quiet)
	require.ErrorIs(t, err, unix.EADDRINUSE)

	cfg.Listeners = cfg.Listeners[:1]
	sockets, err := acquire(cfg, &activation.Source{}, quiet)
	require.NoError(t, err, "the good one was given back")
	require.Len(t, sockets, 1)
	assert.False(t, sockets[0].Shared)
	require.NoError(t, sockets[0].Close())
}

// inherited is a listening socket as a socket unit passes it.
func inherited(t *testing.T) (*sock.Listener, uint16) {
	t.Helper()
	l, err := sock.Listen(socketAddr(loopback(0)), sock.Options{})
	require.NoError(t, err)
	return l, l.Addr().AddrPort.Port()
}

func TestWhatIsNotWantedOfSystemdIsReportedAndClosed(t *testing.T) {
	wanted, port := inherited(t)
	foreign, _ := inherited(t)
	raw, err := unix.FcntlInt(uintptr(wanted.FD.Raw()), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	second := sock.NewFD(raw)
	var pipe [2]int
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	read, write := sock.NewFD(pipe[0]), sock.NewFD(pipe[1])

	var book logBook
	sockets, err := acquire(&config.Config{Listeners: []config.Listener{
		{Name: "web", Listen: []config.Address{loopback(port)}},
	}}, &activation.Source{Origin: activation.Systemd, Offers: []activation.Offer{
		{Name: "web", FD: wanted.FD}, {Name: "old", FD: foreign.FD}, {Name: "web", FD: second}, {Name: "pipe", FD: read}, {FD: write},
	}}, book.logger())
	require.NoError(t, err)
	require.Len(t, sockets, 1)
	assert.True(t, sockets[0].Shared)
	assert.Equal(t, "systemd", sockets[0].Origin)

	for _, fd := range []*sock.FD{foreign.FD, second, read, write} {
		assert.Equal(t, -1, fd.Raw(), "closed")
	}
	text := book.String()
	assert.Contains(t, text, `level=WARN msg="descriptor not used" name=old socket="`+foreign.Addr().String()+`" reason="no listener has this name or address"`)
	assert.Contains(t, text, `level=WARN msg="descriptor not used" name=pipe`)
	assert.Contains(t, text, `reason="not a socket but a pipe"`)
	assert.Contains(t, text, `level=DEBUG msg="second descriptor of a socket closed" name=web socket="`+wanted.Addr().String()+`" origin=systemd`)
	require.NoError(t, sockets[0].Close())
}
