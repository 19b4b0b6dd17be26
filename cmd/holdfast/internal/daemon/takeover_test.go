package daemon

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/handover"
	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// callers connect to addresses again and again, until stop, and are to be served each
// time.
type callers struct {
	t      *testing.T
	over   chan struct{}
	all    sync.WaitGroup
	served atomic.Int64
}

func calling(t *testing.T, addresses ...string) *callers {
	t.Helper()
	return callingAs(t, func(t *testing.T, conn net.Conn, err error) bool {
		return assert.NoError(t, err) && assertEcho(t, conn)
	}, addresses...)
}

// callingAs calls with what is to be done on each connection, which tells whether it was
// served.
func callingAs(t *testing.T, talk func(t *testing.T, conn net.Conn, dialed error) bool, addresses ...string) *callers {
	t.Helper()
	c := &callers{t: t, over: make(chan struct{})}
	for _, a := range addresses {
		network, address, _ := strings.Cut(a, "://")
		c.all.Go(func() {
			for {
				select {
				case <-c.over:
					return
				default:
				}
				conn, err := net.Dial(network, address)
				if talk(t, conn, err) {
					c.served.Add(1)
				}
				if err == nil {
					_ = conn.Close()
				}
			}
		})
	}
	return c
}

func (c *callers) stop() {
	c.t.Helper()
	close(c.over)
	c.all.Wait()
	assert.Positive(c.t, c.served.Load())
}

// process is who serves at the control socket.
func (s *site) process(t *testing.T) status.Status {
	t.Helper()
	var now status.Status
	require.Eventually(t, func() bool {
		var err error
		now, err = control.NewClient(s.dir + "/control.sock").Status(t.Context())
		return err == nil && now.State == status.Running
	}, patience, time.Millisecond)
	return now
}

// twoSockets is a site with a TCP and a Unix listener and an echo server.
func twoSockets(t *testing.T) *site {
	t.Helper()
	s := echoSite(t)
	s.listen["web"] = append(s.listen["web"], "unix://"+s.dir+"/web.sock")
	s.write(t)
	return s
}

const nobody = "" // who keeps

func TestAnInstanceTakesOverFromARunningOne(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	held := s.dial(t, "web")
	requireEcho(t, held)
	load := calling(t, s.listen["web"]...)
	var second *life
	for range 3 {
		second = s.lifeOf(t, nobody, nil)
		second.log.eventually(t, "msg=serving")
	}
	requireEcho(t, held) // of three processes that drain, the first has it
	load.stop()
	now := s.process(t)
	assert.Equal(t, second.command.Process.Pid, now.PID)
	assert.EqualValues(t, 4, now.Generation, "it goes on counting")
	assert.Contains(t, now.Handover.Last, "process ")
	assert.Equal(t, map[string]string{s.label("web"): "handover", "unix " + s.dir + "/web.sock": "handover"}, origins(now))

	require.NoError(t, held.Close())
	require.NoError(t, first.command.Wait(), "it ends with its last connection")
	first.ended = true
	second.end(unix.SIGTERM)
	assert.Empty(t, filesIn(t, s.dir), "files go with who has them in the end")
}

func TestAReplacementThatIsKilledLeavesTheOriginalServing(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	// Connections that the killed process had are lost; nobody is refused. Who was accepted
	// and reset before he has seen that he is connected learns that when he dials.
	load := callingAs(t, func(t *testing.T, conn net.Conn, err error) bool {
		if err != nil {
			assert.ErrorIs(t, err, syscall.ECONNRESET)
			return false
		}
		_, err = conn.Write([]byte("x"))
		_, readErr := conn.Read(make([]byte, 1))
		return err == nil && readErr == nil
	}, s.listen["web"]...)
	for at := range 12 {
		second := s.lifeOf(t, nobody, nil, "TRIAL=9s")
		time.Sleep(time.Duration(at) * 40 * time.Millisecond) // the moment of the kill
		second.end(unix.SIGKILL)
		require.Equal(t, first.command.Process.Pid, s.process(t).PID)
		require.Eventually(t, func() bool { return first.reload() == nil }, patience, time.Millisecond, "as if nothing had been")
	}
	load.stop()
	assert.Contains(t, first.log.String(), "the replacement accepts", "some were killed late")
}

func TestAnOriginalThatHangsWhileTheReplacementIsOnTrialIsEnded(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	second := s.lifeOf(t, nobody, nil, "TRIAL=2s")
	first.log.eventually(t, "the replacement accepts")
	first.freeze()
	load := calling(t, s.listen["web"]...)
	require.Eventually(t, func() bool { return strings.Contains(second.log.String(), "msg=serving") }, 3*alonePatience, 10*time.Millisecond)
	first.gone()
	load.stop()
	third := s.lifeOf(t, nobody, nil)
	third.log.eventually(t, "msg=serving")
}

// Its clients must not take the end for that of the whole stream.
func TestTheClientsOfAReplacementThatIsKilledOnTrialAreReset(t *testing.T) {
	t.Parallel()
	m := storetest.Start(t, 20)
	s := echoSite(t)
	s.write(t)
	first := s.lifeOf(t, m.Socket(), nil)
	first.status()
	second := s.lifeOf(t, m.Socket(), nil, "TRIAL=1m")
	first.log.eventually(t, "the replacement accepts")
	client := s.clients(t, "web", 1)[0]
	second.end(unix.SIGKILL)
	_, err := client.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestAReplacementThatIsKilledOnTrialLeavesNothingInTheStore(t *testing.T) {
	t.Parallel()
	m := storetest.Start(t, 20)
	s := twoSockets(t)
	first := s.live(t, m)
	first.status()
	s.listen["more"] = []string{freeAddress(t)}
	s.write(t)
	second := s.lifeOf(t, m.Socket(), nil, "TRIAL=9s")
	first.log.eventually(t, "the replacement accepts")
	second.end(unix.SIGKILL)
	require.Eventually(t, func() bool { return first.reload() == nil }, patience, time.Millisecond, "its address is free")
	eventuallyStores(t, m, 4, "three sockets and a configuration")
	requireEcho(t, s.dial(t, "more"))
}

func TestAReplacementWithABadFileLeavesTheOriginalServing(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	require.NoError(t, os.WriteFile(s.file, []byte("x = ["), 0o600))
	second := s.lifeOf(t, nobody, nil)
	require.Error(t, second.command.Wait())
	second.ended = true
	assert.Contains(t, second.log.String(), s.file+":1:")
	s.write(t)
	require.NoError(t, first.reload())
	requireEcho(t, s.dial(t, "web"))
}

func TestAServiceOfItsOwnIsNotTakenOver(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	other := newSite(t)
	other.server = s.server
	other.global = []string{"handover_socket = '" + s.dir + "/handover.sock'"}
	other.write(t)
	second := other.lifeOf(t, nobody, nil)
	require.Error(t, second.command.Wait(), "the path is taken")
	second.ended = true
	assert.Contains(t, second.log.String(), "not taking over")
	assert.Contains(t, second.log.String(), "handover socket")
	require.NoError(t, first.reload())
	requireEcho(t, s.dial(t, "web"))
}

func TestAListenerThatGoesInATakeoverIsServedToTheEndOfItsQueue(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	s.listen["goes"] = []string{freeAddress(t)}
	s.write(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	goes := s.listen["goes"][0]
	delete(s.listen, "goes")
	s.write(t)
	second := s.lifeOf(t, nobody, nil)
	second.log.eventually(t, "its queue is served")
	second.status()
	require.Eventually(t, func() bool { return reachable(goes) != nil }, patience, time.Millisecond)
	requireEcho(t, s.dial(t, "web"))
}

// What its holder has not got a replacement gets all the same.
func TestAListenerThatGoesIsServedToTheEndOfItsQueueWhateverTheStoreHasRoomFor(t *testing.T) {
	t.Parallel()
	m := storetest.Start(t, 1)
	s := echoSite(t)
	s.listen["goes"] = []string{freeAddress(t)}
	s.write(t)
	first := s.live(t, m)
	first.status()
	first.log.eventually(t, "not kept when this process ends")
	delete(s.listen, "goes")
	s.write(t)
	second := s.lifeOf(t, m.Socket(), nil)
	second.log.eventually(t, "its queue is served")
	assert.EqualValues(t, 2, second.status().Generation)
	first.gone()
}

// An upgrade to a version that keeps other things, or back from one.
func TestALegacyOfAnotherFormatCostsOnlyWhatIsNotUnderstood(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]string{"a number": `{"format": 99, "current": {"number": 4}}`, "a type": `["another"]`} {
		memory, err := fdstore.Memfd(legacyName, []byte(`{"number": 4, "kept": `+kept+`, "stored": ["socket/1", "state/4"], "active": {"web": 7}}`))
		require.NoError(t, err)
		l := (&daemon{log: quiet}).readLegacy(memory)
		require.NoError(t, memory.Close())
		assert.EqualValues(t, 4, l.Number, name)
		assert.Len(t, l.Stored, 2, name)
		assert.Equal(t, map[string]int64{"web": 7}, l.Active, name)
		assert.Zero(t, l.kept, name)
	}
}

func TestTheNumberOfAGenerationGoesOnAfterAVersionThatHasItInWhatIsKept(t *testing.T) {
	t.Parallel()
	d := &daemon{log: quiet}
	k, err := kept{Format: keptFormat, Current: keptGeneration{Number: 4}}.encode()
	require.NoError(t, err)
	memory, err := fdstore.Memfd(legacyName, []byte(`{"kept": `+string(k)+`}`))
	require.NoError(t, err)
	l := d.readLegacy(memory)
	require.NoError(t, memory.Close())
	assert.EqualValues(t, 4, l.Number)
}

// The kernel completes connections for a process that does not run.
func TestAnInstanceThatHangsIsTakenOver(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	s.global = append(s.global, "metrics = '"+freeAddress(t)+"'")
	s.write(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	first.freeze()
	waiting := s.dial(t, "web")
	second := s.lifeOf(t, nobody, nil)
	requireEcho(t, waiting)
	second.status()
	first.gone() // it was killed
	now := s.process(t)
	assert.Equal(t, map[string]string{s.label("web"): "pidfd", "unix " + s.dir + "/web.sock": "pidfd"}, origins(now))
	assert.NotContains(t, second.log.String(), "not served", "it can be asked at once")
	assert.NotContains(t, second.log.String(), "no configuration knows")
	third := s.lifeOf(t, nobody, nil)
	third.status()
	requireEcho(t, s.dial(t, "web"))
}

func init() {
	children["an instance that only says hello"] = func() error {
		web, err := sock.Listen(sock.TCP(netip.MustParseAddrPort(os.Getenv("WEB"))), sock.Options{})
		if err != nil {
			return err
		}
		l, err := handover.Listen(os.Getenv("HANDOVER"))
		if err != nil {
			return err
		}
		defer web.Close()
		return handover.Serve(context.Background(), l, &playedOriginal{asked: func() { select {} }}, handover.Options{}, quiet)
	}
}

// Who answers is not who does the work.
func TestAnInstanceThatHangsBehindItsAnswersIsTakenOver(t *testing.T) {
	t.Parallel()
	s := echoSite(t)
	s.write(t)
	first := exec.Command("/proc/self/exe")
	first.Env = append(os.Environ(), "DAEMON_TEST_CHILD=an instance that only says hello",
		"WEB="+strings.TrimPrefix(s.listen["web"][0], "tcp://"), "HANDOVER="+s.dir+"/handover.sock")
	require.NoError(t, first.Start())
	defer func() {
		_ = first.Process.Kill()
		_ = first.Wait()
	}()
	require.Eventually(t, func() bool { return reachable(s.listen["web"][0]) == nil && len(filesIn(t, s.dir)) > 0 }, patience, time.Millisecond)
	waiting := s.dial(t, "web")
	second := s.lifeOf(t, nobody, nil, "PATIENCE=1s")
	requireEcho(t, waiting)
	second.status()
	assert.Equal(t, map[string]string{s.label("web"): "pidfd"}, origins(s.process(t)))
}

func TestTheClientsOfAnInstanceThatHangsCountBeforeOthersAreAccepted(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	s.more = []string{"max_connections = 2"}
	s.write(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	clients := s.clients(t, "web", 2)
	first.freeze()
	waiting := s.dial(t, "web")
	second := s.lifeOf(t, nobody, nil)
	require.EqualValues(t, 2, second.status().Connections.Active)
	for _, conn := range clients {
		requireEcho(t, conn)
	}
	require.EqualValues(t, 2, second.status().Connections.Active)
	require.NoError(t, clients[0].Close())
	requireEcho(t, waiting)
	assert.NotContains(t, second.log.String(), "no configuration knows", "its control socket is one that is known")
	first.gone() // it was killed
}

func TestWhoIsToTakeOverAndFindsNobodyEnds(t *testing.T) {
	s := twoSockets(t)
	_, err := start(t.Context(), Options{Source: s.options().Source, Takeover: TakeoverAlways}, quiet, new(slog.LevelVar))
	require.ErrorIs(t, err, handover.ErrNobody)
}

// What the holder has it goes on having, once.
func TestTheStoreIsTheReplacementsAfterATakeover(t *testing.T) {
	t.Parallel()
	m := storetest.Start(t, 20)
	s := twoSockets(t)
	first := s.live(t, m)
	first.status()
	kept := storedBy(m)
	for range 3 {
		next := s.lifeOf(t, m.Socket(), nil)
		next.log.eventually(t, "msg=serving")
		eventuallyStores(t, m, len(kept))
		first.gone()
		first = next
	}
	for _, name := range kept {
		if !isState(name) {
			assert.Contains(t, storedBy(m), name)
		}
	}
	first.end(unix.SIGKILL)
	waiting := s.dial(t, "web")
	last := s.live(t, m)
	requireEcho(t, waiting)
	assert.EqualValues(t, 4, last.status().Generation)
}

func TestAnUpgradeStartsAProcessThatTakesOver(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	load := calling(t, s.listen["web"]...)
	done, err := control.NewClient(first.control).Upgrade(t.Context())
	require.NoError(t, err)
	assert.Equal(t, first.command.Process.Pid, done.Former)
	t.Cleanup(func() { endOrphan(t, done.PID) })
	end, err := first.command.Process.Wait() // Wait would wait for who has inherited stderr
	require.NoError(t, err)
	require.True(t, end.Success())
	first.ended = true
	assert.Equal(t, done.PID, s.process(t).PID)
	load.stop()
}

func TestAnUpgradeThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	load := calling(t, s.listen["web"]...)
	require.NoError(t, os.WriteFile(s.file, []byte("x = ["), 0o600))
	_, err := control.NewClient(first.control).Upgrade(t.Context())
	require.ErrorContains(t, err, s.file+":1:")
	assert.Contains(t, first.status().Handover.LastError, s.file+":1:")
	s.write(t)
	require.NoError(t, first.reload())
	load.stop()
}

// endOrphan ends a process that is a child of this one, as its parent has started it so.
func endOrphan(t *testing.T, pid int) {
	t.Helper()
	assert.NoError(t, unix.Kill(pid, unix.SIGKILL))
	_, err := unix.Wait4(pid, nil, 0, nil)
	assert.NoError(t, err)
}
