package daemon

import (
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

// Whoever is in the way of one address must not cost the clients of the others.
func TestARestartServesWhatCanBeHadAndTheRestLater(t *testing.T) {
	m := storetest.Start(t, 20)
	s := echoSite(t)
	path := s.dir + "/web.sock"
	metrics := freeAddress(t)
	s.listen["web"] = append(s.listen["web"], "unix://"+path)
	s.listen["other"] = []string{"unix://" + s.dir + "/other.sock"}
	s.global = []string{"metrics = '" + metrics + "'"}
	s.lived(t, m)
	waiting := s.dial(t, "web")

	for _, file := range []string{path, s.dir + "/other.sock", s.dir + "/control.sock"} {
		require.NoError(t, os.Remove(file))
	}
	var squatters []net.Listener
	for network, addresses := range map[string][]string{
		"unix": {path, s.dir + "/other.sock", s.dir + "/control.sock"},
		"tcp":  {strings.TrimPrefix(metrics, "tcp://")},
	} {
		for _, address := range addresses {
			l, err := net.Listen(network, address)
			require.NoError(t, err)
			squatters = append(squatters, l)
		}
	}
	second := s.live(t, m)
	requireEcho(t, waiting)
	requireEcho(t, s.dial(t, "web"))
	for _, missing := range []string{"listener web (unix", "listener other (unix", "control socket", "metrics address"} {
		second.log.eventually(t, "not served: "+missing)
	}

	for _, l := range squatters {
		require.NoError(t, l.Close())
	}
	second.log.eventually(t, "serving what was missing")
	require.Eventually(t, func() bool { return second.status().Listeners.LastError == "" }, patience, time.Millisecond)
	now := second.status()
	assert.EqualValues(t, 1, now.Generation)
	assert.Len(t, origins(now), 3)
	for _, at := range []string{path, s.dir + "/other.sock"} {
		conn, err := net.Dial("unix", at)
		require.NoError(t, err)
		requireEcho(t, conn)
		require.NoError(t, conn.Close())
	}
	require.NoError(t, reachable(metrics))
	second.end(unix.SIGKILL)
	third := s.live(t, m)
	assert.Len(t, origins(third.status()), 3, "what came later is kept, too")
}

func TestWithNothingToLoseATakenAddressIsTheEnd(t *testing.T) {
	m := storetest.Start(t, 20)
	s := newSite(t)
	l, err := net.Listen("tcp", strings.TrimPrefix(s.listen["web"][0], "tcp://"))
	require.NoError(t, err)
	defer l.Close()
	s.listen["more"] = []string{freeAddress(t)}
	s.write(t)
	first := s.live(t, m)
	require.Error(t, first.command.Wait())
	first.ended = true
	assert.Contains(t, first.log.String(), "address already in use")
}

// Sockets that came back are not given up for a server of the instance itself.
func TestARestartWithoutItsControlSocketKeepsItsListeners(t *testing.T) {
	m := storetest.Start(t, 20)
	s := echoSite(t)
	metrics := freeAddress(t)
	s.global = []string{"metrics = '" + metrics + "'"}
	s.lived(t, m)
	waiting := s.dial(t, "web")
	require.NoError(t, os.Remove(s.dir+"/control.sock"))
	squatter, err := net.Listen("unix", s.dir+"/control.sock")
	require.NoError(t, err)

	second := s.live(t, m)
	requireEcho(t, waiting)
	second.log.eventually(t, "not served: control socket")
	require.NoError(t, squatter.Close())
	assert.Equal(t, map[string]string{s.label("web"): "store"}, origins(second.status()))
	assert.NotContains(t, second.log.String(), "not served: listener")
}

// Of two things that are wrong the one that is mended must not hide the other.
func TestABrokenFileIsShownUntilAReloadSucceeds(t *testing.T) {
	m := storetest.Start(t, 20)
	s := echoSite(t)
	path := s.dir + "/web.sock"
	s.listen["web"] = append(s.listen["web"], "unix://"+path)
	s.lived(t, m)

	require.NoError(t, os.Remove(path))
	squatter, err := net.Listen("unix", path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.file, []byte("x = ["), 0o600))
	second := s.live(t, m)
	said := func() string { return second.status().Listeners.LastError }
	require.Eventually(t, func() bool { return strings.Contains(said(), path) }, patience, time.Millisecond)
	assert.Contains(t, said(), s.file+":1:")
	require.Error(t, second.reload())
	assert.Contains(t, said(), path)

	require.NoError(t, squatter.Close())
	second.log.eventually(t, "serving what was missing")
	require.Eventually(t, func() bool { return !strings.Contains(said(), path) }, patience, time.Millisecond)
	assert.Contains(t, said(), s.file+":1:")
	s.write(t)
	require.NoError(t, second.reload())
	assert.Empty(t, said())
}

func TestAReloadTellsAllThatIsInTheWay(t *testing.T) {
	s := newSite(t)
	r := s.serving(t)
	squatter, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer squatter.Close()
	taken := "tcp://" + squatter.Addr().String()
	s.listen["more"] = []string{taken, freeAddress(t)}
	s.global = []string{"metrics = '" + taken + "'", "control_socket = '" + s.dir + "/none/such/control.sock'"}
	s.write(t)
	_, err = r.reload(t)
	require.ErrorContains(t, err, "is already global.metrics")
	open := listening() // all servers of the instance are up by now
	s.global = s.global[1:]
	s.write(t)
	for range 3 {
		_, err = r.reload(t)
		for _, text := range []string{"control socket", "listener more"} {
			require.ErrorContains(t, err, text)
		}
		assert.Equal(t, open, listening(), "nothing of it is left")
	}
	r.stop(t)
}

func TestAFileThatDoesNotComeRefusesAReloadAndIsNoHindranceToAStop(t *testing.T) {
	s := newSite(t)
	r := s.serving(t)
	require.NoError(t, os.Remove(s.file))
	require.NoError(t, unix.Mkfifo(s.file, 0o600))
	_, err := r.reload(t)
	require.ErrorContains(t, err, "it does not come")
	reads := func() bool { return strings.Contains(stacks(), "config.readLimited") }
	require.Eventually(t, func() bool { return !reads() }, patience, time.Millisecond)
	r.signal(t, unix.SIGHUP)
	require.Eventually(t, reads, patience, time.Millisecond)
	r.signal(t, unix.SIGTERM)
	r.end(t)
	assert.Equal(t, 1, strings.Count(r.log.String(), "configuration refused"), "the second reload has not waited for the file")
	require.Eventually(t, func() bool { return !reads() }, patience, time.Millisecond)
}

// stacks are those of all goroutines.
func stacks() string {
	text := make([]byte, 1<<20)
	return string(text[:runtime.Stack(text, true)])
}
