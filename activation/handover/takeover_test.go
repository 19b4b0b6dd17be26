package handover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// tick is how often what is waited for is looked at.
const tick = 2 * time.Millisecond

func TestAReplacementTakesOverWithoutLosingAClient(t *testing.T) {
	path := socketPath(t)
	old, serving := start(t, path, Options{Version: "1.0"})
	clients := startLoad(t, old.sockets)

	ctx := deadline(t)
	s := dialSession(t, path)
	assert.Equal(t, os.Getpid(), s.Process().PID())
	hello, err := s.Hello(ctx, "1.1")
	require.NoError(t, err)
	assert.Equal(t, Greeting{Version: "1.0", Protocol: 1}, hello)

	got, err := s.SendListeningSockets(ctx)
	require.NoError(t, err)
	require.Len(t, got, 2)
	for n, r := range got {
		assert.Equal(t, Label{Name: fmt.Sprint("listener", n), Origin: "bind", StoreName: old.sockets[n].StoreName()}, r.Label)
		flags, err := unix.FcntlInt(uintptr(r.FD.Raw()), unix.F_GETFD, 0)
		require.NoError(t, err)
		assert.Equal(t, unix.FD_CLOEXEC, flags)
	}
	next := adopt(t, "replacement", got)
	requireServedBy(t, "original", old)

	require.NoError(t, next.accept())
	require.NoError(t, s.BeginDrainingConnections(ctx, 1500*time.Millisecond))
	requireServedBy(t, "replacement", next)
	handover, err := s.ShutdownOriginalNode(ctx)
	require.NoError(t, err)
	requireServedBy(t, "replacement", next)
	clients.requireNoneLost(t)
	serving.awaitEnd(t)
	assert.Equal(t, []string{"sockets", "drain 1.5s", "shutdown"}, old.heard())
	assert.Equal(t, sock.Peer{PID: os.Getpid(), UID: uint32(os.Geteuid())}, old.successor)

	require.NotNil(t, handover)
	require.NoError(t, handover.Close())
	assert.NoFileExists(t, path, "the replacement owns the file now")
	require.NoError(t, next.sockets[1].Close())
	assert.NoFileExists(t, next.sockets[1].Addr().Path, "and that of the Unix socket")
}

func TestUpgradesInARowWhileOlderOnesAreStillThere(t *testing.T) {
	path := socketPath(t)
	first, _ := start(t, path, Options{})
	clients := startLoad(t, first.sockets)
	for n := range 5 {
		i, _ := takeOver(t, path, fmt.Sprint("upgrade", n))
		requireServedBy(t, fmt.Sprint("upgrade", n), i)
	}
	clients.requireNoneLost(t)
	assert.FileExists(t, path)
}

// A replacement of the replacement may come at once: between the two originals
// nobody answers, but the queue is there.
func TestWhoComesBetweenTwoOriginalsWaitsForTheNextOne(t *testing.T) {
	path := socketPath(t)
	start(t, path, Options{})
	ctx := deadline(t)
	s, got := receiveAll(t, path)
	i := adopt(t, "second", got)
	require.NoError(t, i.accept())
	require.NoError(t, s.BeginDrainingConnections(ctx, 0))
	next, err := s.ShutdownOriginalNode(ctx)
	require.NoError(t, err)

	third := dialSession(t, path)
	answered := make(chan error, 1)
	go func() {
		_, err := third.Hello(ctx, "")
		answered <- err
	}()
	serving := serve(next, i, Options{}, quiet())
	defer serving.end(t)
	require.NoError(t, <-answered)
}

func manySockets(t *testing.T, n int) []*sock.Listener {
	t.Helper()
	dir := t.TempDir()
	all := []*sock.Listener{
		listen(t, loopback(0)),
		listen(t, sock.TCP(netip.MustParseAddrPort("[::1]:0"))),
		listen(t, sock.Unix(dir+"/x.sock")),
		listen(t, sock.Unix("@"+dir)),
	}
	port := all[0].Addr().AddrPort.Port()
	all = append(all, listen(t, sock.TCP(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), port)))) // two addresses on one port
	all = append(all, twins(t)...)
	for len(all) < n {
		all = append(all, listen(t, sock.Unix(filepath.Join("@"+dir, fmt.Sprint(len(all))))))
	}
	for _, l := range all[n:] {
		require.NoError(t, l.Close())
	}
	return all[:n]
}

// twins are two sockets of the same address.
func twins(t *testing.T) []*sock.Listener {
	t.Helper()
	var both []*sock.Listener
	port := 0
	for range 2 {
		raw, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
		require.NoError(t, err)
		fd := sock.NewFD(raw)
		require.NoError(t, unix.SetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
		require.NoError(t, unix.Bind(raw, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port}))
		require.NoError(t, unix.Listen(raw, 1024))
		l, err := sock.Adopt(fd)
		require.NoError(t, err)
		port = int(l.Addr().AddrPort.Port())
		both = append(both, l)
	}
	return both
}

func TestAnyNumberOfSocketsOfAnyKindGoesOver(t *testing.T) {
	for _, n := range []int{0, 1, 253, 254, 1000, 3000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			path := socketPath(t)
			old := newInstance("original", manySockets(t, n)...)
			serving := startInstance(t, path, old, Options{}, quiet())
			first := old.sockets[:min(n, 7)] // one of each kind
			var clients *load
			if n > 0 {
				clients = startLoad(t, first)
			}
			next, _ := takeOver(t, path, "replacement")
			serving.awaitEnd(t)
			require.Len(t, next.sockets, n)
			for k, l := range next.sockets {
				require.Equal(t, old.sockets[k].Info.Cookie, l.Info.Cookie, "socket %d is another one", k)
				require.Equal(t, old.sockets[k].StoreName(), next.labels[k].StoreName)
			}
			if n > 0 {
				clients.requireNoneLost(t)
				requireServedBy(t, "replacement", &instance{sockets: first})
			}
		})
	}
}

func TestASecondReplacementIsToldThatTheOriginalIsBusy(t *testing.T) {
	path := socketPath(t)
	old, _ := start(t, path, Options{})
	ctx := deadline(t)
	first, second := dialSession(t, path), dialSession(t, path)
	_, err := first.Hello(ctx, "")
	require.NoError(t, err)
	_, err = second.Hello(ctx, "")
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorContains(t, err, fmt.Sprintf("take over from process %d (", os.Getpid()))

	got, err := first.SendListeningSockets(ctx)
	require.NoError(t, err, "the first one does not notice")
	closeReceived(t, got)
	require.NoError(t, first.Close())
	old.awaitAbandoned(t)
	takeOver(t, path, "third")
}

func TestWhoComesWhenAReplacementHasJustGoneIsNotTurnedAway(t *testing.T) {
	path := socketPath(t)
	old, _ := start(t, path, Options{})
	for range 20 {
		s := dialSession(t, path)
		_, err := s.Hello(deadline(t), "")
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	for range 20 {
		old.awaitAbandoned(t)
	}
}

func TestAbortLeavesTheOriginalAsItWas(t *testing.T) {
	path := socketPath(t)
	old, _ := start(t, path, Options{})
	ctx := deadline(t)
	for _, requests := range [][]string{
		{hello},
		{hello, sendListeningSockets},
		{hello, sendListeningSockets, beginDrainingConnections},
	} {
		s := dialSession(t, path)
		for _, r := range requests {
			_, fds, err := s.exchange(ctx, message{Type: r, Protocol: protocol})
			require.NoError(t, err)
			closeAll(fds)
		}
		require.NoError(t, s.Abort(ctx))
		require.Equal(t, "abandoned", old.heard()[len(old.heard())-1], "before the answer")
		require.ErrorIs(t, s.Abort(ctx), errOver)
	}
	takeOver(t, path, "replacement")
}

func TestAnOriginalThatCannotStopGoesOnAndSaysSo(t *testing.T) {
	path := socketPath(t)
	old := newOriginal(t)
	old.refuse = map[string]error{"drain 1s": errors.New("not now")}
	startInstance(t, path, old, Options{}, quiet())
	ctx := deadline(t)
	s, got := receiveAll(t, path)
	closeReceived(t, got)
	for range 2 {
		require.ErrorContains(t, s.BeginDrainingConnections(ctx, time.Second), "BeginDrainingConnections: refused: not now")
	}
	requireServedBy(t, "original", old)
	require.NoError(t, s.Abort(ctx))
	assert.Equal(t, []string{"sockets", "drain 1s", "drain 1s", "abandoned"}, old.heard())
}

func TestAnOriginalThatLendsNothingSaysWhy(t *testing.T) {
	path := socketPath(t)
	old := newOriginal(t)
	old.refuse = map[string]error{"sockets": errors.New("stopping")}
	startInstance(t, path, old, Options{}, quiet())
	s := dialSession(t, path)
	_, err := s.Hello(deadline(t), "")
	require.NoError(t, err)
	for range 2 {
		got, err := s.SendListeningSockets(deadline(t))
		require.ErrorContains(t, err, "SendListeningSockets: refused: stopping")
		require.Empty(t, got)
	}
	require.NoError(t, s.Close())
	old.awaitAbandoned(t)
	requireServedBy(t, "original", old)
}

// It was stopped itself meanwhile.
func TestAnOriginalThatAnswersIsNotTakenForHungAlthoughTheTimeIsOver(t *testing.T) {
	path := socketPath(t)
	old, _ := start(t, path, Options{})
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Minute))
	defer cancel()
	s := dialSession(t, path)
	_, err := s.Hello(over, "")
	require.NoError(t, err)
	got, err := s.SendListeningSockets(over)
	require.NoError(t, err)
	closeReceived(t, got)
	require.NoError(t, s.BeginDrainingConnections(over, 0))
	require.NoError(t, s.Abort(over))
	requireServedBy(t, "original", old)
}

// It has served alone by then.
func TestAReplacementThatEndsOtherwiseThanByShutdownLeavesTheOriginalServing(t *testing.T) {
	for name, end := range map[string]func(s *Session) error{
		"close":    (*Session).Close,
		"abort":    func(s *Session) error { return s.Abort(t.Context()) },
		"nonsense": func(s *Session) error { return sendRaw(s.conn, "{", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			old, _ := start(t, path, Options{})
			clients := startLoad(t, old.sockets)
			for range 3 {
				s, got := receiveAll(t, path)
				next := adopt(t, "replacement", got)
				require.NoError(t, next.accept())
				require.NoError(t, s.BeginDrainingConnections(deadline(t), 0))
				requireServedBy(t, "replacement", next)
				next.stopAccepting()
				require.NoError(t, end(s))
				old.awaitAbandoned(t)
				requireServedBy(t, "original", old)
			}
			takeOver(t, path, "third")
			clients.requireNoneLost(t)
		})
	}
}
