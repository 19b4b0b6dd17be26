package handover

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// protocolSteps are the requests of a whole handover of three sockets, of which two
// fit into a message.
var protocolSteps = []string{hello, sendListeningSockets, sendListeningSockets, beginDrainingConnections, shutdownOriginalNode}

// The moments at which one side dies, seen from a request.
const (
	before   = "before"   // it was made
	asked    = "asked"    // it was made and not answered
	answered = "answered" // the answer has arrived
)

func eachMoment(t *testing.T, test func(t *testing.T, step int, moment string)) {
	t.Helper()
	for step, request := range protocolSteps {
		for _, moment := range []string{before, asked, answered} {
			// Not in parallel: a process has all our sockets between its fork and exec.
			t.Run(fmt.Sprintf("%d %s %s", step, request, moment), func(t *testing.T) { test(t, step, moment) })
		}
	}
}

// threeSockets is an instance at three Unix sockets.
func threeSockets(t *testing.T) *instance {
	t.Helper()
	dir := t.TempDir()
	i := newInstance("original")
	for n := range 3 {
		l := listen(t, sock.Unix(filepath.Join(dir, fmt.Sprint(n))))
		i.sockets, i.labels = append(i.sockets, l), append(i.labels, longLabel(l))
	}
	return i
}

func TestKill9OfTheReplacementAtAnyStep(t *testing.T) {
	eachMoment(t, func(t *testing.T, step int, moment string) {
		path := socketPath(t)
		old := threeSockets(t)
		serving := startInstance(t, path, old, Options{}, quiet())
		clients := startLoad(t, old.sockets)

		second := startProcess(t, "replacement", os.Geteuid(), path)
		require.Equal(t, "dial <nil>", second.says(t))
		for _, request := range protocolSteps[:step] {
			require.Equal(t, request+" <nil>", second.do(t, request))
		}
		switch request := protocolSteps[step]; moment {
		case asked:
			require.Equal(t, "sent <nil>", second.do(t, "send "+request))
			if request == shutdownOriginalNode { // it may notice the death before it looks
				require.Eventually(t, func() bool { return slices.Contains(old.heard(), "shutdown") }, patience, tick)
			}
		case answered:
			require.Equal(t, request+" <nil>", second.do(t, request))
		}
		second.kill()

		if protocolSteps[step] == shutdownOriginalNode && moment != before {
			// It has served alone, and proven that it can.
			serving.awaitEnd(t)
			old.close(t, true)
			clients.end()
			_, err := Dial(path)
			require.ErrorIs(t, err, ErrNobody)
			requireNormalStart(t, path, old)
			return
		}
		requireServedBy(t, "original", old) // it has accepted nothing itself
		third, _ := takeOver(t, path, "third")
		serving.awaitEnd(t)
		clients.requireNoneLost(t)
		requireServedBy(t, "third", third)
		if step > 0 || moment == answered { // a Hello may be seen too late to be of use
			assert.Contains(t, old.heard(), "abandoned")
		}
	})
}

// requireNormalStart is what an instance does that finds nobody to take over from.
func requireNormalStart(t *testing.T, path string, former *instance) *instance {
	t.Helper()
	i := newInstance("new")
	for _, l := range former.sockets {
		i.sockets = append(i.sockets, listen(t, l.Addr()))
	}
	startInstance(t, path, i, Options{}, quiet())
	requireServedBy(t, "new", i)
	return i
}

func TestKill9OfTheOriginalAtAnyStep(t *testing.T) {
	eachMoment(t, func(t *testing.T, step int, moment string) {
		path, dir := socketPath(t), t.TempDir()
		paths := []string{dir + "/0", dir + "/1", dir + "/2"}
		original := startProcess(t, "original", os.Geteuid(), append([]string{path}, paths...)...)
		require.Equal(t, "ready", original.says(t))

		s := dialSession(t, path)
		ctx := deadline(t)
		var got []Received
		ask := func(request string) error {
			answer, fds, err := s.exchange(ctx, message{Type: request, Protocol: protocol})
			for n, fd := range fds {
				got = append(got, Received{Label: answer.Sockets[n], FD: fd})
			}
			return err
		}
		for _, request := range protocolSteps[:step] {
			require.NoError(t, ask(request))
		}
		request := protocolSteps[step]
		switch moment {
		case before:
			original.kill()
			require.ErrorIs(t, ask(request), ErrGone)
		case asked:
			original.stop(t)
			require.NoError(t, s.conn.send(ctx, message{Type: request, Protocol: protocol}))
			original.kill()
			_, _, err := s.conn.receive(ctx)
			require.ErrorIs(t, s.end(request, err), ErrGone)
		case answered:
			require.NoError(t, ask(request))
			original.kill()
		}
		require.NoError(t, s.Close())

		_, err := Dial(path)
		require.ErrorIs(t, err, ErrNobody)
		var second *instance
		if len(got) == len(paths) {
			// It has all sockets, and so who is in their queues.
			waiting := startWaiting(t, []sock.Addr{sock.Unix(paths[0]), sock.Unix(paths[1]), sock.Unix(paths[2])})
			second = adopt(t, "second", got)
			startInstance(t, path, second, Options{}, quiet())
			waiting.requireNoneLost(t)
		} else {
			closeReceived(t, got)
			lost := newInstance("lost")
			for _, p := range paths {
				lost.sockets = append(lost.sockets, &sock.Listener{Info: sock.Info{Addr: sock.Unix(p)}, FD: &sock.FD{}})
			}
			second = requireNormalStart(t, path, lost)
		}
		clients := startLoad(t, second.sockets)
		third, _ := takeOver(t, path, "third")
		clients.requireNoneLost(t)
		requireServedBy(t, "third", third)
	})
}
