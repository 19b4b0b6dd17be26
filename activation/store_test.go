package activation_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// restart ends a process that had the sockets, and is what its store passes on.
func restart(t *testing.T, held ...activation.Socket) *activation.Source {
	t.Helper()
	var offers []activation.Offer
	for _, s := range held {
		offers = append(offers, dup(t, activation.Offer{FD: s.FD}, s.StoreName()))
		require.NoError(t, s.FD.Close()) // a death removes no path
	}
	return from(t, activation.Store, offers...)
}

func TestStoredSocketsGoToTheListenerOfTheirAddress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ip, file, both := holdBound(t, anyPort), holdBound(t, sock.Unix(path)), holdBound(t, everybody)
	wants := []activation.Want{
		want("socket", file.Addr()), want("web", ip.Addr(), on(both, "")),
	}
	r := mustAcquire(t, wants, restart(t, ip, file, both))
	assert.Equal(t, []string{"store unix " + path}, sockets(r.Listeners[0]))
	assert.Equal(t, []string{"store " + ip.Addr().String(), "store " + both.Addr().String()}, sockets(r.Listeners[1]))
	for _, l := range r.Listeners {
		for _, s := range l.Sockets {
			assert.Equal(t, s.Name, s.StoreName(), "the name is the same in each life")
		}
	}

	require.NoError(t, r.Listeners[0].Sockets[0].Close())
	assert.NoFileExists(t, path, "the file is ours again")
}

func TestAStartThatFailsLeavesThePathToTheNext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stored := restart(t, holdBound(t, sock.Unix(path)))
	copied := dup(t, stored.Offers[0], "") // the store's own
	defer copied.FD.Close()
	r := mustAcquire(t, []activation.Want{want("web", sock.Unix(path))}, stored)
	require.NoError(t, r.Close())
	assert.FileExists(t, path)
}

func TestALeftoverOfAnOlderGenerationIsDrainedWithItsService(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	moved, gone, removed := holdBound(t, tcp("0.0.0.0:0")), holdBound(t, sock.Unix(path)), holdBound(t, anyPort)
	older := []activation.Want{want("web", moved.Addr()), want("file", gone.Addr()), want("old", removed.Addr())}
	require.NoError(t, removed.Retire())
	require.NoError(t, os.Remove(path))

	r := mustAcquire(t, []activation.Want{want("web", on(moved, "127.0.0.1")), want("file", gone.Addr())}, restart(t, moved, gone, removed))
	assert.Equal(t, []string{"bind " + on(moved, "127.0.0.1").String()}, sockets(r.Listeners[0]), "bound beside the old one")
	assert.Equal(t, []string{"bind unix " + path}, sockets(r.Listeners[1]))

	var left []activation.Socket
	var why []string
	for _, u := range r.Unwanted {
		s, ok := u.Socket()
		require.True(t, ok)
		assert.Same(t, u.FD, s.FD)
		left = append(left, s)
		why = append(why, u.Reason)
	}
	require.Len(t, left, 3)
	assert.Equal(t, []string{
		"no listener has this name or address", "new clients do not find it any more", "new clients do not find it any more",
	}, why)
	assert.Equal(t, [][]activation.Socket{{left[0]}, {left[1]}, {left[2]}}, activation.Match(older, left))
	require.NoError(t, left[1].Close())
	assert.FileExists(t, path, "it is the new one's")
}

// HAProxy renames the file of a socket that it has bound.
func TestASocketWhoseFileWasRenamedGoesToTheListenerOfItsPath(t *testing.T) {
	bound, path := filepath.Join(t.TempDir(), "bound"), filepath.Join(t.TempDir(), "s")
	renamed := holdBound(t, sock.Unix(bound))
	require.NoError(t, os.Rename(bound, path))
	wants := []activation.Want{want("other", sock.Unix(filepath.Join(t.TempDir(), "o"))), want("web", sock.Unix(path))}
	r := mustAcquire(t, wants, restart(t, renamed))
	assert.Equal(t, []string{"store unix " + path}, sockets(r.Listeners[1]))

	r = mustAcquire(t, nil, restart(t, r.Listeners[1].Sockets...))
	require.Len(t, r.Unwanted, 1)
	left, ok := r.Unwanted[0].Socket()
	require.True(t, ok)
	assert.Equal(t, [][]activation.Socket{nil, {left}}, activation.Match(wants, []activation.Socket{left}))
	require.NoError(t, left.Close())
	assert.NoFileExists(t, path)
}

func TestForeignDescriptorsOfTheStoreAreNotDrained(t *testing.T) {
	memfd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	r := mustAcquire(t, nil, from(t, activation.Store,
		activation.Offer{Name: "socket/1", FD: sock.NewFD(memfd)}, offerSocket(t, "socket/2", unix.SOCK_STREAM, nil)))
	assert.Equal(t, []string{"socket/1: not a socket but memfd x", "socket/2: not listening"}, reasons(r))
	for _, u := range r.Unwanted {
		_, ok := u.Socket()
		assert.False(t, ok)
	}
}

func TestSplitTakesOutWhatCameFromTheStore(t *testing.T) {
	a, b := offer(t, "web", anyPort), offer(t, "holdfast.socket", anyPort)
	c, d := offer(t, "socket/3f", anyPort), offer(t, "socket/1", anyPort)
	source := systemd(t, a, c, b, d)
	stored := source.Split(sock.IsStoreName, activation.Store)
	t.Cleanup(func() { assert.NoError(t, stored.Close()) })
	assert.Equal(t, &activation.Source{Origin: activation.Systemd, Offers: []activation.Offer{a, b}}, source)
	assert.Equal(t, &activation.Source{Origin: activation.Store, Offers: []activation.Offer{c, d}}, stored)
}
