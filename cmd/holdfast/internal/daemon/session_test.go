package daemon

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// awaitSuccess waits for the end of a process, which must be a good one.
func (l *life) awaitSuccess() {
	l.t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := l.command.Process.Wait() // Wait would wait for who has inherited stderr
		ended <- err
	}()
	select {
	case err := <-ended:
		require.NoError(l.t, err)
		l.ended = true
	case <-time.After(3 * patience):
		require.Fail(l.t, "it does not end", l.log.String())
	}
	require.NotContains(l.t, l.log.String(), "level=ERROR")
}

// awaitHandler waits until the process does something at a signal. Up to then it may ignore
// that: it has inherited this from the process of the test.
func (l *life) awaitHandler(signal unix.Signal) {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.command.Process.Pid))
		require.NoError(l.t, err)
		_, after, _ := strings.Cut(string(text), "SigCgt:\t")
		caught, err := strconv.ParseUint(strings.Fields(after)[0], 16, 64)
		require.NoError(l.t, err)
		return caught&(1<<(signal-1)) != 0
	}, patience, time.Millisecond)
}

func (l *life) signal(signal unix.Signal) {
	l.t.Helper()
	require.NoError(l.t, l.command.Process.Signal(signal))
}

// Who is taking over has the sockets then, and is not left alone.
func TestAnOriginalThatIsToldToStopLeavesWhatItHasLent(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]int{"with the sockets": lent, "on trial": alone} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := twoSockets(t)
			first := s.lifeOf(t, nobody, nil)
			first.status()
			p := s.play(t, step)
			first.signal(unix.SIGTERM)
			first.awaitSuccess()
			assert.Len(t, p.got, 3, "two sockets, and what generation it is")
			require.NoError(t, reachable(s.listen["web"][0]))
			assert.FileExists(t, s.dir+"/web.sock")
		})
	}
}

// It asks for a while which end this is.
func TestAnOriginalThatIsToldToStopDoesNotAcceptWhenItSaysSo(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	t.Parallel()
	bus := filepath.Join(shortDir(t), "bus") // where nobody answers
	silent, err := net.Listen("unix", bus)
	require.NoError(t, err)
	defer silent.Close()
	m := storetest.Start(t, 20)
	s := twoSockets(t)
	first := s.lifeOf(t, m.Socket(), nil, "DBUS_SYSTEM_BUS_ADDRESS=unix:path="+bus)
	first.status()
	p := s.play(t, lent)
	first.signal(unix.SIGTERM)
	require.Eventually(t, func() bool {
		err := first.reload()
		return err != nil && strings.Contains(err.Error(), errStopping.Error())
	}, patience, time.Millisecond, "it waits for the end of the session")
	require.NoError(t, p.BeginDrainingConnections(t.Context(), 0))
	client := s.dial(t, "web")
	_, err = client.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, client.SetReadDeadline(time.Now().Add(time.Second)))
	_, err = client.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it waits for who takes over")
}

func TestAnOriginalThatStopsLendsNothing(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	s.global = []string{"drain_timeout = 'never'"}
	s.write(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	held := s.dial(t, "web")
	requireEcho(t, held)
	p := s.play(t, greeted)
	first.signal(unix.SIGTERM)
	first.log.eventually(t, "msg=stopping")
	require.Eventually(t, func() bool { return reachable(s.listen["web"][0]) != nil }, patience, time.Millisecond)
	_, err := p.SendListeningSockets(t.Context())
	require.ErrorContains(t, err, errStopping.Error())
	requireEcho(t, held)
	require.NoError(t, held.Close())
	first.awaitSuccess()
	assert.Empty(t, filesIn(t, s.dir))
}

func TestAnOriginalThatIsToldToStopOnTrialIsSucceeded(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	held := s.dial(t, "web")
	requireEcho(t, held)
	load := calling(t, s.listen["web"]...)
	second := s.lifeOf(t, nobody, nil, "TRIAL=2s")
	first.log.eventually(t, "the replacement accepts")
	first.signal(unix.SIGTERM)
	second.log.eventually(t, "msg=serving")
	first.awaitSuccess()
	for range 100 { // of two owners each would take some of it
		requireEcho(t, held)
	}
	load.stop()
	assert.Equal(t, second.command.Process.Pid, s.process(t).PID)
}

// What it has accepted it serves to the end.
func TestAReplacementThatIsToldToStopLeavesTheOriginalServing(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	load := calling(t, s.listen["web"]...)
	for at := range 12 {
		second := s.lifeOf(t, nobody, nil, "TRIAL=9s")
		second.awaitHandler(unix.SIGTERM)
		time.Sleep(time.Duration(at) * 40 * time.Millisecond) // the moment of the signal
		second.end(unix.SIGTERM)
		require.Equal(t, first.command.Process.Pid, s.process(t).PID)
		require.Eventually(t, func() bool { return first.reload() == nil }, patience, time.Millisecond, "as if nothing had been")
	}
	load.stop()
	assert.Contains(t, first.log.String(), "the replacement accepts", "some were told late")
}

func TestWhileAnotherProcessTakesOverNothingElseBegins(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]int{"with the sockets": lent, "on trial": alone} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := twoSockets(t)
			first := s.lifeOf(t, nobody, nil)
			first.status()
			p := s.play(t, lent)
			require.ErrorContains(t, first.reload(), errOffering.Error())
			if step == alone {
				require.NoError(t, p.BeginDrainingConnections(t.Context(), 0))
			}
			first.signal(unix.SIGHUP)
			first.log.eventually(t, "not reloaded")
			require.NoError(t, p.Abort(t.Context()))
			requireEcho(t, s.dial(t, "web"))
			now := s.process(t)
			assert.EqualValues(t, 1, now.Generation)
			require.NoError(t, first.reload())
			assert.EqualValues(t, 2, s.process(t).Generation)
		})
	}
}

// passedSockets are what a socket unit passes for the listener web, so many for one
// address, beside each other.
func (s *site) passedSockets(t *testing.T, count int) (passed func() []fdstore.Held) {
	t.Helper()
	var sockets []int
	at := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	for range count {
		raw, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, unix.Close(raw)) })
		require.NoError(t, unix.SetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
		require.NoError(t, unix.Bind(raw, at))
		require.NoError(t, unix.Listen(raw, unix.SOMAXCONN))
		name, err := unix.Getsockname(raw)
		require.NoError(t, err)
		at = name.(*unix.SockaddrInet4)
		sockets = append(sockets, raw)
	}
	s.listen["web"] = []string{"tcp://127.0.0.1:" + strconv.Itoa(at.Port)}
	return func() (held []fdstore.Held) {
		for _, raw := range sockets {
			copied, err := unix.FcntlInt(uintptr(raw), unix.F_DUPFD_CLOEXEC, 3)
			require.NoError(t, err)
			held = append(held, fdstore.Held{Name: "web", FD: sock.NewFD(copied)})
		}
		return held
	}
}

func TestAnInstanceDoesNotExitIdleWhileAnotherOneTakesOver(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	passed := s.passedSockets(t, 1)
	s.global = []string{"exit_idle = '1s'"}
	s.write(t)
	first := s.lifeOf(t, nobody, passed())
	first.status()
	p := s.play(t, lent)
	time.Sleep(2 * time.Second) // twice the time after which it would
	require.NoError(t, p.BeginDrainingConnections(t.Context(), 0), "it is there")
	require.NoError(t, p.Abort(t.Context()))
	first.awaitSuccess()
	assert.Contains(t, first.log.String(), "no connection for exit_idle")
}

// The unit's socket comes from both sides.
func TestAProcessThatWasPassedSocketsTakesOver(t *testing.T) {
	t.Parallel()
	s := echoSite(t)
	passed := s.passedSockets(t, 1)
	s.listen["more"] = []string{freeAddress(t)}
	s.write(t)
	first := s.lifeOf(t, nobody, passed())
	first.status()
	load := calling(t, s.listen["web"][0], s.listen["more"][0])
	second := s.lifeOf(t, nobody, passed())
	second.log.eventually(t, "msg=serving")
	first.awaitSuccess()
	load.stop()
	now := s.process(t)
	assert.Equal(t, second.command.Process.Pid, now.PID)
	assert.Equal(t, map[string]string{s.label("web"): "systemd", s.label("more"): "handover"}, origins(now))
}

// Each has a queue of its own, and the kernel goes on sending clients to both.
func TestSocketsThatShareAnAddressGoThroughUpgradesTogether(t *testing.T) {
	t.Parallel()
	s := echoSite(t)
	const twins = 3
	passed := s.passedSockets(t, twins)
	s.write(t)
	first := s.lifeOf(t, nobody, passed())
	first.status()
	address := s.listen["web"][0]
	load := calling(t, address, address, address, address)
	former := first.command.Process.Pid
	for range 2 {
		done, err := control.NewClient(first.control).Upgrade(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { reap(t, done.PID) })
		require.Equal(t, former, done.Former)
		former = done.PID
	}
	var accepted []int64
	for _, l := range s.process(t).Listeners.Sockets {
		if l.Socket == s.label("web") {
			require.Equal(t, status.SocketActive, l.State)
			accepted = append(accepted, l.Accepted)
		}
	}
	load.stop()
	assert.Len(t, accepted, twins)
	first.awaitSuccess()
}

// reap ends a process that is a child of this one, as its parent has started it so, if it
// has not ended.
func reap(t *testing.T, pid int) {
	t.Helper()
	_ = unix.Kill(pid, unix.SIGKILL)
	_, _ = unix.Wait4(pid, nil, 0, nil)
}

// A reload that a replacement has waited for is not undone by what that had read before.
func TestAReplacementServesTheFileAsItIsWhenTheOriginalChangesNoMore(t *testing.T) {
	t.Parallel()
	s := echoSite(t)
	s.write(t)
	o := &playedOriginal{asked: func() {
		s.listen["more"] = []string{freeAddress(t)}
		s.write(t)
	}}
	s.playOriginal(t, o)
	second := s.lifeOf(t, nobody, nil)
	second.status()
	assert.True(t, o.heard("draining"))
	requireEcho(t, s.dial(t, "more"))
}

func TestAFileThatGoesBadMeanwhileIsNotTakenOverWith(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write(t)
	o := &playedOriginal{asked: func() { assert.NoError(t, os.WriteFile(s.file, []byte("x = ["), 0o600)) }}
	s.playOriginal(t, o)
	second := s.lifeOf(t, nobody, nil)
	require.Error(t, second.command.Wait())
	second.ended = true
	assert.Contains(t, second.log.String(), s.file+":1:")
	require.Eventually(t, func() bool { return o.heard("abandoned") }, patience, time.Millisecond)
	assert.False(t, o.heard("draining"))
}

func TestAReplacementThatCannotHaveAllConnectionsLeavesThemAndTheService(t *testing.T) {
	t.Parallel()
	s := echoSite(t)
	s.write(t)
	o := &playedOriginal{files: 250}
	s.playOriginal(t, o)
	second := s.lifeOf(t, nobody, nil, "NOFILE=200")
	require.Eventually(t, second.over, 3*patience, 10*time.Millisecond)
	require.Error(t, second.command.Wait())
	second.ended = true
	assert.Regexp(t, `SendConnections: [0-9]+ of 250 descriptors arrived`, second.log.String())
	assert.NotContains(t, second.log.String(), "connections stay where they are")
	require.Eventually(t, func() bool { return o.heard("abandoned") }, patience, time.Millisecond)
}

// Up to then it could be left to the original, which stops now.
func TestAReplacementThatIsToldToStopWhenTheOriginalIsLettingGoStopsAsTheInstance(t *testing.T) {
	t.Parallel()
	s := echoSite(t)
	s.write(t)
	o := &playedOriginal{lettingGo: make(chan struct{})}
	s.playOriginal(t, o)
	second := s.lifeOf(t, nobody, nil)
	require.Eventually(t, func() bool { return o.heard("letting go") }, patience, time.Millisecond)
	second.signal(unix.SIGTERM)
	time.Sleep(200 * time.Millisecond) // it knows of the signal by then
	close(o.lettingGo)
	second.log.eventually(t, "msg=stopping")
	second.awaitSuccess()
	assert.True(t, o.heard("shutdown"))
	assert.NotContains(t, second.log.String(), "not taking over")
	assert.Empty(t, filesIn(t, s.dir))
}

// The original has waited ten seconds for it, and accepts again.
func TestAReplacementThatStandsStillOnTrialWithdrawsAndEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	t.Parallel()
	s := twoSockets(t)
	s.global = []string{"drain_timeout = 'never'"}
	s.write(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	second := s.lifeOf(t, nobody, nil, "TRIAL=3s")
	first.log.eventually(t, "the replacement accepts")
	held := s.dial(t, "web")
	requireEcho(t, held)
	second.freeze()
	require.Eventually(t, func() bool { return strings.Contains(first.log.String(), "going on") }, 3*alonePatience, 10*time.Millisecond)
	requireEcho(t, s.dial(t, "web"))
	second.signal(unix.SIGCONT)
	second.log.eventually(t, "leaving the service to the running instance")
	requireEcho(t, held)
	require.NoError(t, held.Close())
	require.Eventually(t, second.over, 3*patience, 10*time.Millisecond, "it does not end")
	require.Error(t, second.command.Wait(), "it says why")
	second.ended = true
	assert.Equal(t, first.command.Process.Pid, s.process(t).PID)
	require.NoError(t, first.reload())
}

func TestAReplacementThatWithdrawsServesOnUntilItIsToldAgain(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	s.global = []string{"drain_timeout = 'never'"}
	s.write(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	second := s.lifeOf(t, nobody, nil, "TRIAL=9s")
	first.log.eventually(t, "the replacement accepts")
	held := s.dial(t, "web")
	requireEcho(t, held)
	second.signal(unix.SIGTERM)
	second.log.eventually(t, "leaving the service to the running instance")
	require.Equal(t, first.command.Process.Pid, s.process(t).PID)
	requireEcho(t, held)
	second.signal(unix.SIGTERM)
	second.awaitSuccess()
	assert.Contains(t, second.log.String(), "stopping at once")
	requireEcho(t, s.dial(t, "web"))
}

func TestConnectionsStayWhenAReplacementThatWasLentThemGoesAway(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	first := s.lifeOf(t, nobody, nil)
	first.status()
	held := s.dial(t, "web")
	requireEcho(t, held)
	p := s.play(t, alone)
	files, err := p.SendConnections(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		require.NoError(t, f.FD.Close())
	}
	requireEcho(t, held)
	require.NoError(t, p.Close())
	first.log.eventually(t, "going on")
	requireEcho(t, held)
	requireEcho(t, s.dial(t, "web"))
}
