package sock_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func TestListenUnixPacketKeepsTheBoundsOfMessages(t *testing.T) {
	for _, path := range []string{socketPath(t), "@" + socketPath(t)} {
		l := mustListen(t, sock.UnixPacket(path), sock.Options{})
		assert.Equal(t, "unixpacket "+path, l.Addr().String())
		assert.Equal(t, unix.SOCK_SEQPACKET, l.Info.Type)
		assert.True(t, l.Info.Listening)
		connect(t, l.Addr(), unix.SOCK_SEQPACKET)
	}
}

func TestAUnixPacketSocketIsNotTheStreamSocketOfThatPath(t *testing.T) {
	assert.NotEqual(t, sock.Unix("/run/x.sock"), sock.UnixPacket("/run/x.sock"))
}

func TestListenUnixPacketComesAndGoesWithItsFile(t *testing.T) {
	path := socketPath(t)
	l := mustListen(t, sock.UnixPacket(path), sock.Options{Mode: 0o600})
	st, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), st.Mode().Perm())
	assert.Equal(t, l.StoreName(), comeBack(t, l, l.StoreName()).StoreName())
	require.NoError(t, l.Close())
	assert.NoFileExists(t, path)
}

func TestListenUnixPacketReplacesAStaleFileAndNoOther(t *testing.T) {
	stale, live, stream, file := socketPath(t), socketPath(t), socketPath(t), socketPath(t)
	leaveStale(t, stale)
	mustListen(t, sock.UnixPacket(stale), sock.Options{})
	mustListen(t, sock.UnixPacket(live), sock.Options{})
	mustListen(t, sock.Unix(stream), sock.Options{})
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	for path, want := range map[string]error{live: unix.EADDRINUSE, stream: unix.EADDRINUSE, file: sock.ErrNotSocketFile} {
		_, err := sock.Listen(sock.UnixPacket(path), sock.Options{})
		require.ErrorIs(t, err, want)
		assert.FileExists(t, path)
	}
	_, err := sock.Listen(sock.UnixPacket(live), sock.Options{})
	assert.ErrorContains(t, err, "in use by process")
}

func TestCloseOfAUnixPacketSocketKeepsTheFileOfALaterInstance(t *testing.T) {
	path := socketPath(t)
	first := mustListen(t, sock.UnixPacket(path), sock.Options{})
	require.NoError(t, os.Remove(path))
	second := mustListen(t, sock.UnixPacket(path), sock.Options{})
	require.NoError(t, first.Close())
	connect(t, second.Addr(), unix.SOCK_SEQPACKET)
}
