package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/status"
	"github.com/holdfast-proxy/holdfast/systemd"
)

// upgradeAsked is an upgrade under way.
type upgradeAsked struct {
	done status.Upgrade
	err  chan error
}

func (l *life) upgrade() *upgradeAsked {
	u := &upgradeAsked{err: make(chan error, 1)}
	ctx := l.t.Context()
	go func() {
		var err error
		u.done, err = control.NewClient(l.control).Upgrade(ctx)
		u.err <- err
	}()
	return u
}

// started is the process that an upgrade has started.
func (l *life) started() int {
	l.t.Helper()
	l.log.eventually(l.t, "started a replacement")
	found := regexp.MustCompile(`started a replacement.* pid=(\d+)`).FindStringSubmatch(l.log.String())
	require.NotNil(l.t, found)
	pid, err := strconv.Atoi(found[1])
	require.NoError(l.t, err)
	return pid
}

// exitOf waits for the end of a process that is a child of this one, as its parent has
// started it so.
func exitOf(t *testing.T, pid int) unix.WaitStatus {
	t.Helper()
	ended := make(chan unix.WaitStatus, 1)
	go func() {
		var how unix.WaitStatus
		_, err := unix.Wait4(pid, &how, 0, nil)
		for errors.Is(err, unix.EINTR) {
			_, err = unix.Wait4(pid, &how, 0, nil)
		}
		ended <- how
	}()
	select {
	case how := <-ended:
		return how
	case <-time.After(3 * patience):
		_ = unix.Kill(pid, unix.SIGKILL)
		require.Fail(t, "it does not end")
		return 0
	}
}

func TestOfTwoUpgradesAtOnceOneIsRefused(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	first := s.lifeOf(t, nobody, nil, "TRIAL=2s")
	first.status()
	load := calling(t, s.listen["web"]...)
	one, other := first.upgrade(), first.upgrade()
	refused, err := <-one.err, <-other.err
	if refused == nil {
		one, other, refused, err = other, one, err, refused
	}
	require.NoError(t, err)
	t.Cleanup(func() { reap(t, other.done.PID) })
	require.ErrorContains(t, refused, errUpgrading.Error())
	assert.Equal(t, other.done.PID, s.process(t).PID)
	first.awaitEnd()
	load.stop()
}

// awaitEnd waits for the end of a process in good order, whatever it has logged.
func (l *life) awaitEnd() {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.over() }, 3*patience, 10*time.Millisecond, "it does not end")
	state, err := l.command.Process.Wait()
	require.NoError(l.t, err)
	assert.True(l.t, state.Success(), state)
	l.ended = true
}

// over tells whether the process has ended, and waits to be reaped.
func (l *life) over() bool {
	l.t.Helper()
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, l.command.Process.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	require.NoError(l.t, err)
	return info.Signo != 0
}

// The one that was started is not the one that the manager is to supervise.
func TestAnUpgradeThatIsForestalledFails(t *testing.T) {
	t.Parallel()
	m := newListeningManager(t)
	s := twoSockets(t)
	first := s.lifeOf(t, m.path, nil)
	first.status()
	p := s.play(t, lent)
	u := first.upgrade()
	child := first.started()
	require.NoError(t, p.BeginDrainingConnections(t.Context(), 0))
	next, err := p.ShutdownOriginalNode(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, next.Close()) })
	require.ErrorContains(t, <-u.err, "process "+strconv.Itoa(os.Getpid())+" (")
	assert.Equal(t, unix.SIGKILL, exitOf(t, child).Signal())
	first.awaitEnd()
	assert.Contains(t, m.heard(), "MAINPID="+strconv.Itoa(os.Getpid()))
	assert.NotContains(t, m.heard(), "MAINPID="+strconv.Itoa(child))
}

func TestAStopEndsAnUpgradeAndClosesTheSocketsInOrder(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	first := s.lifeOf(t, nobody, nil, "TRIAL=9s")
	first.status()
	u := first.upgrade()
	first.log.eventually(t, "the replacement accepts")
	child := first.started()
	first.signal(unix.SIGTERM)
	require.Error(t, <-u.err)
	first.awaitEnd()
	exitOf(t, child)
	assert.Empty(t, filesIn(t, s.dir))
	require.Error(t, reachable(s.listen["web"][0]))
}

// Its clients are not ended with the attempt.
func TestAReplacementThatHasSaidWhyItDoesNotTakeOverServesWhomItHasAccepted(t *testing.T) {
	t.Parallel()
	s := twoSockets(t)
	s.global = []string{"drain_timeout = 'never'"}
	s.write(t)
	first := s.lifeOf(t, nobody, nil, "TRIAL=9s")
	first.status()
	u := first.upgrade()
	first.log.eventually(t, "the replacement accepts")
	held := s.dial(t, "web")
	requireEcho(t, held)
	child := first.started()
	require.NoError(t, unix.Kill(child, unix.SIGTERM))
	select {
	case err := <-u.err:
		require.ErrorContains(t, err, wasStopped)
	case <-time.After(patience):
		require.Fail(t, "the reason waits for the clients")
	}
	assert.Equal(t, first.command.Process.Pid, s.process(t).PID)
	time.Sleep(2 * lastWords)
	requireEcho(t, held)
	require.NoError(t, held.Close())
	assert.Equal(t, 0, exitOf(t, child).ExitStatus())

	u = first.upgrade() // there is room for the next one
	require.NoError(t, <-u.err)
	t.Cleanup(func() { reap(t, u.done.PID) })
	first.awaitEnd()
}

// listeningManager is a service manager that keeps nothing, and that can be busy.
type listeningManager struct {
	path string
	conn *net.UnixConn
	busy sync.Mutex

	mu   sync.Mutex
	text strings.Builder
}

func newListeningManager(t *testing.T) *listeningManager {
	t.Helper()
	m := &listeningManager{path: shortDir(t) + "/notify"}
	var err error
	m.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	require.NoError(t, err)
	ended := make(chan struct{})
	go m.listen(ended)
	t.Cleanup(func() {
		_ = m.conn.Close()
		<-ended
	})
	return m
}

// listen ends with the socket.
func (m *listeningManager) listen(ended chan<- struct{}) {
	defer close(ended)
	text, rights := make([]byte, 8<<10), make([]byte, unix.CmsgSpace(sock.MaxRights*4))
	for {
		n, rightsN, _, _, err := m.conn.ReadMsgUnix(text, rights)
		if err != nil {
			return
		}
		m.busy.Lock() // what it has received it acts on when it is not
		m.mu.Lock()
		m.text.Write(append(text[:n:n], '\n'))
		m.mu.Unlock()
		messages, _ := unix.ParseSocketControlMessage(rights[:rightsN])
		for _, one := range messages {
			fds, _ := unix.ParseUnixRights(&one)
			for _, fd := range fds {
				_ = unix.Close(fd) // which answers a barrier
			}
		}
		m.busy.Unlock()
	}
}

func (m *listeningManager) heard() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.String()
}

// The manager would take its end for that of the service.
func TestAnOriginalDoesNotEndBeforeTheManagerKnowsItsSuccessor(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	m := newListeningManager(t)
	s := twoSockets(t)
	first := s.lifeOf(t, m.path, nil, "TRIAL=2s")
	first.status()
	u := first.upgrade()
	first.log.eventually(t, "the replacement accepts")
	m.busy.Lock()
	require.NoError(t, <-u.err, "the new process serves, whatever the manager does")
	t.Cleanup(func() { reap(t, u.done.PID) })
	require.Never(t, first.over, 2*farewell, 100*time.Millisecond)
	require.NotContains(t, m.heard(), "MAINPID=")
	m.busy.Unlock()
	first.awaitEnd()
	assert.Contains(t, m.heard(), "MAINPID="+strconv.Itoa(u.done.PID)+"\n")
}

func TestAnOriginalThatHangsIsNotEndedBeforeTheManagerKnowsItsSuccessor(t *testing.T) {
	if testing.Short() {
		t.Skip("takes fifteen seconds")
	}
	t.Parallel()
	m := newListeningManager(t)
	s := twoSockets(t)
	first := s.lifeOf(t, m.path, nil)
	first.status()
	second := s.lifeOf(t, m.path, nil, "TRIAL=2s")
	first.log.eventually(t, "the replacement accepts")
	first.freeze()
	m.busy.Lock()
	assert.Never(t, first.over, alonePatience+6*time.Second, 100*time.Millisecond)
	m.busy.Unlock()
	second.log.eventually(t, "msg=serving")
	first.gone()
	assert.Contains(t, m.heard(), "MAINPID="+strconv.Itoa(second.command.Process.Pid)+"\n")
	requireEcho(t, s.dial(t, "web"))
}

func TestTheLastMessageIsNotLostInAFullQueue(t *testing.T) {
	m := newListeningManager(t)
	t.Setenv("NOTIFY_SOCKET", m.path)
	notify, err := systemd.NotifierFromEnv()
	require.NoError(t, err)
	telling := newTelling(notify, quiet)
	waits := make(chan struct{})
	for range 2 * mostUntold {
		telling.tell(func() error { <-waits; return notify.Status("old") })
	}
	telling.finish(func() error { return errors.Join(notify.MainPID(12), notify.Barrier(context.Background())) })
	telling.tell(func() error { return notify.Status("later") })
	close(waits)
	telling.close()
	assert.Contains(t, m.heard(), "MAINPID=12\n")
	assert.LessOrEqual(t, strings.Count(m.heard(), "old"), 1, "what was under way; the rest is out of date")
	assert.NotContains(t, m.heard(), "later")
}
