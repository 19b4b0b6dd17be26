package daemon

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// listeningAt is a socket of another program at a path.
func listeningAt(t *testing.T, path string) activation.Socket {
	t.Helper()
	l, err := sock.Listen(sock.Unix(path), sock.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return activation.Socket{Listener: l, Origin: activation.Pidfd}
}

func TestAPathThatIsRemovedIsThereAgain(t *testing.T) {
	for how, remove := range map[string]func(path string) error{
		"removed": os.Remove,
		"renamed": func(path string) error { return os.Rename(path, path+".old") },
	} {
		t.Run(how, func(t *testing.T) {
			dir := shortDir(t)
			s := listeningAt(t, dir+"/x.sock")
			killed := fmt.Sprint(dir, "/x.sock", linkSuffix, 1<<22+1)
			require.NoError(t, os.WriteFile(killed, nil, 0o600))
			a := &adoption{log: quiet}
			stop := a.watchPaths([]activation.Socket{s})
			for range 3 {
				require.NoError(t, remove(dir+"/x.sock"))
				require.Eventually(t, s.Reachable, patience, time.Millisecond)
			}
			stop()
			assert.NoFileExists(t, killed)
			assert.NoFileExists(t, dir+"/x.sock"+linkSuffix+strconv.Itoa(os.Getpid()))
			assert.True(t, s.Reachable())
		})
	}
}

func TestAPathThatIsGivenUpStaysRemoved(t *testing.T) {
	dir := shortDir(t)
	s, stays := listeningAt(t, dir+"/x.sock"), listeningAt(t, dir+"/y.sock")
	a := &adoption{log: quiet}
	stop := a.watchPaths([]activation.Socket{s, stays})
	defer stop()
	a.forget(s)
	require.NoError(t, os.Remove(dir+"/x.sock"))
	require.NoError(t, os.Remove(dir+"/y.sock"))
	require.Eventually(t, stays.Reachable, patience, time.Millisecond)
	assert.False(t, s.Reachable())
}

func TestWhoHasTakenAPathKeepsIt(t *testing.T) {
	dir := shortDir(t)
	s := listeningAt(t, dir+"/x.sock")
	var paths keptPaths
	require.NoError(t, paths.keep(dir+"/x.sock"))
	require.NoError(t, os.Remove(dir+"/x.sock"))
	next := listeningAt(t, dir+"/x.sock")
	assert.Empty(t, paths.restore())
	assert.True(t, next.Reachable())
	assert.False(t, s.Reachable())
	paths.drop()
	assert.Empty(t, paths)
	assert.Equal(t, []string{dir + "/x.sock"}, filesIn(t, dir))
}

// The process that takes over from this one keeps the path, too, and the file that it has
// put at the name of a link is not ours.
func TestALinkOfSomebodyElseIsLeftAlone(t *testing.T) {
	dir := shortDir(t)
	s := listeningAt(t, dir+"/x.sock")
	successor := dir + "/x.sock" + linkSuffix + strconv.Itoa(os.Getppid())
	require.NoError(t, os.Link(s.Addr().Path, successor))
	var paths keptPaths
	require.NoError(t, paths.keep(dir+"/x.sock"))
	paths.drop()
	assert.FileExists(t, successor)

	require.NoError(t, paths.keep(dir+"/x.sock"))
	link := paths[dir+"/x.sock"].link
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.WriteFile(link, nil, 0o600))
	require.NoError(t, os.Remove(dir+"/x.sock"))
	assert.Empty(t, paths.restore(), "it leads to another file")
	paths.drop()
	assert.FileExists(t, link)
	assert.NoFileExists(t, dir+"/x.sock")
}

func TestThePathOfASocketThatIsSomebodyElsesByNowIsNotKept(t *testing.T) {
	dir := shortDir(t)
	s := listeningAt(t, dir+"/x.sock")
	require.NoError(t, os.Remove(dir+"/x.sock"))
	require.NoError(t, os.WriteFile(dir+"/x.sock", nil, 0o600))
	a := &adoption{log: quiet}
	stop := a.watchPaths([]activation.Socket{s})
	defer stop()
	assert.Equal(t, []string{dir + "/x.sock"}, filesIn(t, dir), "no link")
}

func TestAPathIsWatchedWithoutInotify(t *testing.T) {
	s := listeningAt(t, shortDir(t)+"/x.sock")
	a := &adoption{log: quiet}
	require.NoError(t, a.keepPath(s.Addr()))
	require.NoError(t, os.Remove(s.Addr().Path))
	done := make(chan struct{})
	go func() {
		a.restoreOn(t.Context(), pathWatch{told: -1, over: -1, timeout: 1})
		close(done)
	}()
	require.Eventually(t, s.Reachable, patience, time.Millisecond)
	t.Cleanup(func() {
		<-done
		a.paths.drop()
	})
}

// Its thread comes before all others.
func TestWhoIsToldOfRemovalsSleepsUntilThen(t *testing.T) {
	dir := shortDir(t)
	r := (&adoption{log: quiet}).watchRemovals(map[string]bool{dir: true})
	woken := make(chan struct{})
	go func() {
		defer close(woken)
		r.await()
	}()
	select {
	case <-woken:
		require.Fail(t, "it looks although nothing was removed")
	case <-time.After(10 * lookForPaths):
	}
	r.wake()
	<-woken
	r.close()

	missing := (&adoption{log: quiet}).watchRemovals(map[string]bool{dir: true, dir + "/missing": true})
	defer missing.close()
	missing.await() // nobody tells of all of them
}
