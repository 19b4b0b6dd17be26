package daemon

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

// Of two owners each would take some of the bytes.
func TestAStartWithConnectionsWhoseOwnerLivesFails(t *testing.T) {
	t.Parallel()
	m := storetest.Start(t, 20)
	s := twoSockets(t)
	first := s.live(t, m)
	first.status()
	held := s.dial(t, "web")
	requireEcho(t, held)
	s.global = []string{"handover_socket = '" + s.dir + "/other.sock'"} // where nobody answers
	s.write(t)
	second := s.live(t, m)
	require.Eventually(t, second.over, patience, time.Millisecond, "it serves, too")
	require.Error(t, second.command.Wait())
	second.ended = true
	assert.Contains(t, second.log.String(), errOwnerLives.Error())
	requireEcho(t, held)
	requireEcho(t, s.dial(t, "web"))
	first.end(unix.SIGKILL)
	third := s.live(t, m)
	requireEcho(t, held)
	assert.Positive(t, third.status().Connections.Restored)
}

func TestWhatIsAnotherServicesByNowIsNotKeptForTheNextProcess(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("takes root, to make a PID name space")
	}
	t.Parallel()
	m := storetest.Start(t, 20)
	s := twoSockets(t)
	first := s.lifeOf(t, m.Socket(), nil, apart)
	first.log.eventually(t, "msg=serving")
	unkept := s.dial(t, "web")
	requireEcho(t, unkept)
	require.NotEmpty(t, m.Names())
	stranger := s.lifeOf(t, nobody, nil)
	stranger.log.eventually(t, "msg=serving")
	require.Eventually(t, func() bool { return len(m.Names()) == 0 }, patience, time.Millisecond)
	first.awaitSuccess()
	second := s.live(t, m)
	second.status()
	requireEcho(t, unkept)
	stranger.awaitSuccess()
}
