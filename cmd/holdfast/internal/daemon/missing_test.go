package daemon

import (
	"net"
	"os"
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
	s := newSite(t)
	s.server = echo(t).String()
	path := s.dir + "/web.sock"
	metrics := freeAddress(t)
	s.listen["web"] = append(s.listen["web"], "unix://"+path)
	s.listen["other"] = []string{"unix://" + s.dir + "/other.sock"}
	s.global = []string{"metrics = '" + metrics + "'"}
	s.write(t)
	first := s.live(t, m)
	first.status()
	first.end(unix.SIGKILL)
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
		second.log.eventually(t, "configuration refused: "+missing)
	}
	assert.NotContains(t, second.log.String(), "no socket unit")

	for _, l := range squatters {
		require.NoError(t, l.Close())
	}
	second.log.eventually(t, "nothing is missing any more")
	now := second.status()
	assert.EqualValues(t, 1, now.Generation)
	assert.Empty(t, now.Listeners.LastError)
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

func TestAFileThatDoesNotComeRefusesAReloadAndIsNoHindranceToAStop(t *testing.T) {
	s := newSite(t)
	r := s.serving(t)
	require.NoError(t, os.Remove(s.file))
	require.NoError(t, unix.Mkfifo(s.file, 0o600))
	_, err := r.reload(t)
	require.ErrorContains(t, err, "it does not come")
	r.signal(t, unix.SIGHUP)
	r.stop(t)
	open, err := os.OpenFile(s.file, os.O_RDWR, 0) // who reads it yet goes on
	require.NoError(t, err)
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, open.Close())
}
