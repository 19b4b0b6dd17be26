package daemon

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/leaktest"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// site is a config file with what stands in it, and the folder of an instance's own
// sockets.
type site struct {
	dir    string
	file   string
	server string // of the upstream
	global []string
	listen map[string][]string // addresses by listener
	more   []string            // settings of each listener
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{dir: shortDir(t), server: "tcp://127.0.0.1:9", listen: map[string][]string{}}
	s.file = filepath.Join(t.TempDir(), "holdfast.toml")
	s.listen["web"] = []string{freeAddress(t)}
	return s
}

// echoSite is one with a server.
func echoSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.server = echo(t).String()
	return s
}

// freeAddress is a port of the loopback that nobody has.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return "tcp://" + l.Addr().String()
}

// write puts the file into the state that the fields say.
func (s *site) write(t *testing.T) {
	t.Helper()
	text := fmt.Sprintf("[global]\ndrain_timeout = '5s'\ncontrol_socket = '%[1]s/control.sock'\nhandover_socket = '%[1]s/handover.sock'\n", s.dir)
	for _, line := range s.global {
		key, _, _ := strings.Cut(line, " ")
		if i := strings.Index(text, key+" = "); i >= 0 { // the later one
			end := i + strings.Index(text[i:], "\n") + 1
			text = text[:i] + text[end:]
		}
		text += line + "\n"
	}
	for name, addresses := range s.listen {
		text += fmt.Sprintf("[listener.%s]\nupstream = 'app'\nlisten = ['%s']\n%s\n", name, strings.Join(addresses, "', '"), strings.Join(s.more, "\n"))
	}
	text += "[upstream.app]\nservers = '" + s.server + "'\n"
	require.NoError(t, os.WriteFile(s.file, []byte(text), 0o600))
}

func (s *site) options() Options {
	return Options{Source: config.Source{File: s.file}, Version: "test"}
}

// serving runs an instance on the file in this process.
func (s *site) serving(t *testing.T) *running {
	t.Helper()
	s.write(t)
	cfg := &config.Config{Global: config.Global{ControlSocket: filepath.Join(s.dir, "control.sock")}}
	r := runningOn(t, cfg, s.options())
	r.eventually(t, status.Running)
	return r
}

func (r *running) reload(t *testing.T) (status.Reload, error) {
	t.Helper()
	return control.NewClient(r.config.Global.ControlSocket).Reload(t.Context())
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.signal(t, unix.SIGTERM)
	r.end(t)
}

// listening are the listening sockets of this process, each once however many descriptors
// it has: who serves one makes another, some time after it is there.
func listening() map[string]bool {
	sockets := map[string]bool{}
	for open := range leaktest.Descriptors() {
		number, socket, _ := strings.Cut(open, " ")
		fd, err := strconv.Atoi(number)
		if err != nil {
			continue
		}
		if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err == nil && on != 0 {
			sockets[socket] = true
		}
	}
	return sockets
}

func reachable(address string) error {
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "tcp://"))
	if err == nil {
		err = conn.Close()
	}
	return err
}

func TestAReloadPutsTheFileIntoService(t *testing.T) {
	s := echoSite(t)
	r := s.serving(t)
	conn := r.dial(t)
	requireEcho(t, conn)

	first := s.listen["web"][0]
	s.listen["web"] = []string{freeAddress(t), "unix://" + s.dir + "/web.sock"}
	s.write(t)
	done, err := r.reload(t)
	require.NoError(t, err)
	assert.EqualValues(t, 2, done.Generation)
	changes := map[string]status.ChangeKind{}
	for _, c := range done.Changes {
		changes[c.Socket] = c.Change
	}
	assert.Equal(t, map[string]status.ChangeKind{
		"tcp " + strings.TrimPrefix(first, "tcp://"):              status.Drains,
		"tcp " + strings.TrimPrefix(s.listen["web"][0], "tcp://"): status.Bound,
		"unix " + s.dir + "/web.sock":                             status.Bound,
	}, changes)
	require.ErrorIs(t, reachable(first), unix.ECONNREFUSED)
	require.NoError(t, reachable(s.listen["web"][0]))
	requireEcho(t, conn)
	assert.Contains(t, r.log.String(), "msg=reloaded generation=2 bound=2 draining=1")
	require.NoError(t, conn.Close())
	r.stop(t)
	assert.Empty(t, filesIn(t, s.dir))
}

func TestHangupReloads(t *testing.T) {
	s := newSite(t)
	r := s.serving(t)
	s.listen["more"] = []string{freeAddress(t)}
	s.write(t)
	r.signal(t, unix.SIGHUP)
	r.log.eventually(t, "msg=reloaded generation=2 kept=1 bound=1")
	r.stop(t)
}

func TestARefusedReloadChangesNothingAndSaysWhy(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	inUse := "tcp://" + taken.Addr().String()
	s := echoSite(t)
	r := s.serving(t)
	fine := s.listen
	before := listening()

	for step, c := range map[string]struct {
		spoil func(t *testing.T)
		error string
		hint  string
	}{
		"port in use": {
			func(*testing.T) { s.listen = map[string][]string{"web": fine["web"], "alt": {freeAddress(t), inUse}} },
			"listener alt (tcp " + taken.Addr().String() + "): address already in use", "another program listens there: ss -ltnp",
		},
		"address of another host": {
			func(*testing.T) { s.listen = map[string][]string{"web": {"tcp://203.0.113.7:80"}} },
			"listener web (tcp 203.0.113.7:80): cannot assign requested address", "no interface of this host has that address",
		},
		"metrics": {
			func(*testing.T) { s.global = []string{"metrics = '" + inUse + "'"} },
			"metrics address " + inUse + ": address already in use", "",
		},
		"broken syntax": {
			func(t *testing.T) { require.NoError(t, os.WriteFile(s.file, []byte("x = ["), 0o600)) },
			s.file + ":1:", "",
		},
		"no file": {
			func(t *testing.T) { require.NoError(t, os.Remove(s.file)) },
			s.file + ": cannot read: no such file or directory", "",
		},
	} {
		s.listen, s.global = fine, nil
		c.spoil(t)
		if step != "broken syntax" && step != "no file" {
			s.write(t)
		}
		_, err := r.reload(t)
		var refused *control.RefusedError
		require.ErrorAs(t, err, &refused, step)
		require.Len(t, refused.Problems, 1)
		assert.Contains(t, refused.Problems[0].Error, c.error, step)
		assert.Contains(t, refused.Problems[0].Hint, c.hint, step)
		now := r.status(t)
		assert.EqualValues(t, 1, now.Generation, step)
		assert.Contains(t, now.Listeners.LastError, c.error, step)
		assert.Len(t, now.Listeners.Sockets, 1, step)
		require.NoError(t, reachable(fine["web"][0]), step)
	}
	assert.Equal(t, before, listening(), "what was opened is closed")

	s.listen, s.global = fine, nil
	s.write(t)
	done, err := r.reload(t)
	require.NoError(t, err)
	assert.EqualValues(t, 2, done.Generation)
	assert.Empty(t, r.status(t).Listeners.LastError)
	r.stop(t)
}

func TestReloadsAtOnceAreDoneOneAfterTheOther(t *testing.T) {
	s := newSite(t)
	r := s.serving(t)
	var all sync.WaitGroup
	generations := make(chan uint64, 20)
	for range cap(generations) {
		all.Go(func() {
			if done, err := r.reload(t); assert.NoError(t, err) {
				generations <- done.Generation
			}
		})
	}
	all.Wait()
	close(generations)
	seen := map[uint64]bool{}
	for g := range generations {
		assert.False(t, seen[g], "two reloads made generation %d", g)
		seen[g] = true
	}
	assert.EqualValues(t, 1+len(seen), r.status(t).Generation)
	r.stop(t)
}

func TestAReloadMovesWhereTheInstanceIsAsked(t *testing.T) {
	s := newSite(t)
	r := s.serving(t)
	metrics := freeAddress(t)
	s.global = []string{"metrics = '" + metrics + "'", "control_socket = '" + s.dir + "/moved.sock'", "handover_socket = '" + s.dir + "/next.sock'"}
	s.write(t)
	_, err := r.reload(t) // is answered, although its socket goes
	require.NoError(t, err)
	r.config.Global.ControlSocket = s.dir + "/moved.sock"
	assert.EqualValues(t, 2, r.status(t).Generation)
	require.Eventually(t, func() bool { return len(filesIn(t, s.dir)) == 2 }, patience, time.Millisecond, "the old socket's file goes")
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + strings.TrimPrefix(metrics, "tcp://") + "/ready")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())

	s.global = s.global[1:]
	s.write(t)
	_, err = r.reload(t)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return reachable(metrics) != nil }, patience, time.Millisecond, "the metrics are off")
	r.stop(t)
}

// A unit of Type=notify-reload asks by the signal. Any other must not be told that it
// reloads.
func TestTheManagerIsToldOfEachHangupWhateverItsEnd(t *testing.T) {
	told := manager(t)
	s := newSite(t)
	r := s.serving(t)
	assert.Equal(t, "READY=1", told())
	for _, good := range []bool{true, false} {
		if !good {
			require.NoError(t, os.Remove(s.file))
		}
		_, err := r.reload(t)
		assert.Equal(t, good, err == nil)
		r.signal(t, unix.SIGHUP)
		assert.Regexp(t, `^RELOADING=1\nMONOTONIC_USEC=[0-9]+$`, told())
		assert.Equal(t, "READY=1", told())
	}
	r.signal(t, unix.SIGTERM)
	assert.Equal(t, "STOPPING=1", told())
	r.end(t)
}

func TestAStopDoesNotWaitForAReload(t *testing.T) {
	asked := silentNameServer(t)
	s := newSite(t)
	r := s.serving(t)
	s.server = "tcp://db.test:1"
	s.write(t)
	refused := make(chan error, 1)
	go func() {
		_, err := r.reload(t)
		refused <- err
	}()
	select {
	case <-asked:
	case <-time.After(patience):
		require.Fail(t, "no name is looked up")
	}
	r.signal(t, unix.SIGTERM)
	r.end(t)
	assert.NotContains(t, r.log.String(), "look-up failed: timed out")
	require.ErrorContains(t, <-refused, "stopping")
	assert.NotContains(t, r.log.String(), "configuration refused")
	assert.Empty(t, filesIn(t, s.dir))
}
