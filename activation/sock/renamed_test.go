package sock_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func TestASocketWhoseFileWasRenamedIsFoundThere(t *testing.T) {
	bound, path := socketPath(t), socketPath(t)
	l := mustListen(t, sock.Unix(bound), sock.Options{})
	require.NoError(t, os.Rename(bound, path))
	name, err := l.Info.StoreNameAt(path)
	require.NoError(t, err)
	assert.Equal(t, l.StoreName(), name, "it is the same file")
	back := comeBack(t, l, name)
	require.False(t, back.Reachable())

	other := mustListen(t, sock.Unix(socketPath(t)), sock.Options{})
	assert.False(t, back.Renamed(other.Addr().Path), "the file is another's")
	assert.False(t, back.Renamed(socketPath(t)), "nothing is there")
	assert.Equal(t, bound, back.Addr().Path)

	assert.True(t, back.Renamed(path))
	assert.True(t, back.Reachable())
	assert.Equal(t, sock.Unix(path), back.Addr())
	assert.Equal(t, name, back.StoreName())
	require.NoError(t, back.Close())
	assert.NoFileExists(t, path)
}

func TestASocketThatOwnsNoFileIsNotRenamed(t *testing.T) {
	path := socketPath(t)
	l := mustListen(t, sock.Unix(path), sock.Options{})
	assert.False(t, comeBack(t, l, "").Renamed(path))
	assert.False(t, mustListen(t, tcp("127.0.0.1:0"), sock.Options{}).Renamed(path))
}

func TestStoreNameAtNeedsTheFile(t *testing.T) {
	l := mustListen(t, sock.Unix(socketPath(t)), sock.Options{})
	_, err := l.Info.StoreNameAt("/nonexistent/x")
	require.ErrorIs(t, err, os.ErrNotExist)
}
