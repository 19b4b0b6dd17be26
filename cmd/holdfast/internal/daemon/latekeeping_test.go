package daemon

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// silent makes what the service manager is while it does not read.
func silent(t *testing.T) (path string, wakesUp func() *storetest.Manager) {
	t.Helper()
	path = filepath.Join(shortDir(t), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return path, func() *storetest.Manager {
		m, err := storetest.New(path+".new", 20)
		require.NoError(t, err)
		t.Cleanup(m.Close)
		require.NoError(t, os.Rename(path+".new", path))
		return m
	}
}

func TestAManagerThatAnswersLateKeepsFromThenOn(t *testing.T) {
	t.Parallel()
	path, wakesUp := silent(t)
	s := echoSite(t)
	s.write(t)
	l := s.lifeOf(t, path, nil, "FDSTORE=20")
	assert.Equal(t, status.HolderNone, l.status().Holder)
	requireEcho(t, s.dial(t, "web"))
	require.ErrorContains(t, l.reload(), "does not answer")

	m := wakesUp()
	require.Eventually(t, func() bool { return len(storedBy(m)) == 2 }, 2*keepPatience, 10*time.Millisecond)
	assert.Equal(t, status.HolderSystemd, l.status().Holder)
	require.NoError(t, l.reload())
	l.end(unix.SIGKILL)
	waiting := s.dial(t, "web")
	s.lifeOf(t, path, m.Pass())
	requireEcho(t, waiting)
}

// What came from the store is there still when the process ends, whatever it could
// learn of the manager.
func TestAStopUnderASilentManagerLeavesTheStoreAlone(t *testing.T) {
	t.Parallel()
	m := storetest.Start(t, 20)
	s := echoSite(t)
	s.lived(t, m)

	path, _ := silent(t)
	second := s.lifeOf(t, path, m.Pass())
	second.status()
	second.end(unix.SIGTERM)
	waiting := s.dial(t, "web")
	s.live(t, m)
	requireEcho(t, waiting)
}

func TestWhatSomebodyElsePutIntoTheStoreIsNoHindrance(t *testing.T) {
	m := storetest.Start(t, 20)
	s := echoSite(t)
	s.lived(t, m)

	// The same socket under another socket's name, and a configuration that cannot be read.
	var held fdstore.Held
	for _, h := range m.Pass() {
		if !sock.IsStoreName(h.Name) {
			require.NoError(t, h.FD.Close())
			continue
		}
		held = h
	}
	defer held.FD.Close()
	require.NoError(t, m.Notifier().SendFDs(nil, "FDSTOREREMOVE=1", "FDNAME="+held.Name))
	require.NoError(t, m.Notifier().SendFDs([]int{held.FD.Raw()}, "FDSTORE=1", "FDNAME=socket/ffffff"))
	require.NoError(t, m.Notifier().SendFDs(nil, "FDSTOREREMOVE=1", "FDNAME="+stateName(1)))
	memory, err := fdstore.Memfd("x", []byte("{"))
	require.NoError(t, err)
	defer memory.Close()
	require.NoError(t, m.Notifier().SendFDs([]int{memory.Raw()}, "FDSTORE=1", "FDNAME="+stateName(1)))
	require.NoError(t, m.Notifier().Barrier(t.Context()))

	second := s.live(t, m)
	second.status()
	assert.ElementsMatch(t, []string{"socket/ffffff", stateName(1)}, storedBy(m))
	s.listen["more"] = []string{freeAddress(t)}
	s.write(t)
	require.NoError(t, second.reload())
	second.end(unix.SIGKILL)
	third := s.live(t, m)
	assert.EqualValues(t, 2, third.status().Generation, "the configuration was kept")
	delete(s.listen, "web")
	s.write(t)
	require.NoError(t, third.reload())
	eventuallyStores(t, m, 2)
	assert.NotContains(t, storedBy(m), "socket/ffffff")
}

func TestAHolderThatHasNoRoomAtTheStartKeepsWhenItHas(t *testing.T) {
	t.Parallel()
	m := storetest.Start(t, 0)
	s := echoSite(t)
	s.write(t)
	l := s.lifeOf(t, m.Socket(), nil, "FDSTORE=20")
	assert.Equal(t, status.HolderNone, l.status().Holder)
	held := s.dial(t, "web")
	requireEcho(t, held)
	assert.EqualValues(t, 1, l.status().Connections.Unkept)
	require.NoError(t, l.reload(), "which is no reason not to go on")

	m.Resize(20)
	require.Eventually(t, func() bool { return l.status().Connections.Kept == 1 }, 2*keepPatience, 10*time.Millisecond)
	assert.Equal(t, status.HolderSystemd, l.status().Holder)
	l.end(unix.SIGKILL)
	s.live(t, m)
	requireEcho(t, held)
}

// What it has lent may be the holder's from another process by then.
func TestAManagerThatAnswersDuringATakeoverKeepsAfterIt(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	path, wakesUp := silent(t)
	s := newSite(t)
	s.write(t)
	l := s.lifeOf(t, path, nil, "FDSTORE=20")
	l.status()
	p := s.play(t, lent)
	m := wakesUp()
	require.Eventually(t, func() bool { return l.status().Holder == status.HolderSystemd }, 2*keepPatience, 10*time.Millisecond)
	require.Never(t, func() bool { return slices.ContainsFunc(m.Names(), isOurs) }, time.Second, 10*time.Millisecond)
	require.NoError(t, p.Abort(t.Context()))
	require.Eventually(t, func() bool { return len(storedBy(m)) == 2 }, 2*lookEvery, 10*time.Millisecond)
	l.log.eventually(t, "from now on")
}
