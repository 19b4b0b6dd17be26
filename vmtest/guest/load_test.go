package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// serve accepts on a socket of the kind of a, until the test ends.
func serve(t *testing.T, a address, handle func(halfCloser)) address {
	t.Helper()
	l, err := a.listen()
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go handle(conn.(halfCloser))
		}
	}()
	return address{a.network, l.Addr().String()}
}

var anyPort = address{"tcp", "127.0.0.1:0"}

// loadUntil puts addresses under load until every client was served and what they
// have seen is enough, or until the first is lost.
func loadUntil(t *testing.T, enough func(wire.LoadReport) bool, l load, addresses ...address) wire.LoadReport {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	l.pause, l.log = time.Millisecond, stopper{t.Output(), stop}
	l.beat = time.Millisecond
	if l.patience == 0 {
		l.patience = 30 * time.Second
	}
	return l.run(ctx, addresses, func() error {
		go func() {
			for ; !enough(l.tally.soFar()) && ctx.Err() == nil; sleep(ctx, time.Millisecond) {
			}
			stop()
		}()
		return nil
	})
}

// never is for clients that are lost.
func never(wire.LoadReport) bool { return false }

// stopper stops at the first error that is logged.
type stopper struct {
	log  io.Writer
	stop func()
}

func (s stopper) Write(b []byte) (int, error) {
	s.stop()
	return s.log.Write(b)
}

func (t *tally) soFar() wire.LoadReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.r
}

func TestAGoodServerLosesNobody(t *testing.T) {
	tcp := serve(t, anyPort, echo)
	unix := serve(t, address{"unix", filepath.Join(t.TempDir(), "s")}, echo)
	again := func(r wire.LoadReport) bool { // more than one call, and than the first pieces
		return r.New.OK > 4 && r.StreamBytes > int64(6*pieces[0])
	}
	r := loadUntil(t, again, load{streams: 3, idle: 2, callers: 2}, tcp, unix)
	assert.Zero(t, r.New.Bad())
	assert.Zero(t, r.Streams.Bad())
	assert.Equal(t, 10, r.Streams.OK)
	assert.True(t, again(r), "%+v", r)
	assert.Empty(t, r.Errors)
}

func TestEachWayToLoseAClientIsCounted(t *testing.T) {
	tests := map[string]struct {
		server   func(halfCloser)
		count    func(wire.Outcomes) int
		patience time.Duration // 0 = long
	}{
		"reset": {func(c halfCloser) {
			_, _ = io.ReadFull(c, make([]byte, 1))
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}, func(o wire.Outcomes) int { return o.Reset }, 0},
		"cut": {func(c halfCloser) {
			_, _ = io.CopyN(c, c, 1)
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}, func(o wire.Outcomes) int { return o.Cut }, 0},
		"wrong": {func(c halfCloser) {
			b := make([]byte, 1)
			_, _ = io.ReadFull(c, b)
			b[0]++
			_, _ = c.Write(b)
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}, func(o wire.Outcomes) int { return o.Wrong }, 0},
		"timeout": {func(c halfCloser) {
			<-t.Context().Done()
			_ = c.Close()
		}, func(o wire.Outcomes) int { return o.Timeout }, 300 * time.Millisecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := serve(t, anyPort, test.server)
			assertLost(t, test.count, test.patience, a)
		})
	}
}

func TestWhereNobodyListensClientsAreRefused(t *testing.T) {
	l, err := anyPort.listen()
	require.NoError(t, err)
	closed := address{"tcp", l.Addr().String()}
	require.NoError(t, l.Close())
	for _, a := range []address{closed, {"unix", filepath.Join(t.TempDir(), "missing")}} {
		assertLost(t, func(o wire.Outcomes) int { return o.Refused }, 0, a)
	}
}

// assertLost checks that a caller, a stream and an idle connection are lost at a, each in
// the way that count counts.
func assertLost(t *testing.T, count func(wire.Outcomes) int, patience time.Duration, a address) {
	t.Helper()
	for _, l := range []load{{callers: 1, patience: patience}, {streams: 1, patience: patience}, {idle: 1, patience: patience}} {
		r := loadUntil(t, never, l, a)
		o, none := r.New, r.Streams
		if l.callers == 0 {
			o, none = none, o
		}
		assert.NotZero(t, count(o), "%v: %+v", a, r)
		assert.Equal(t, o.Bad(), count(o), "%v: %+v", a, r)
		assert.Zero(t, none, "%v: %+v", a, r)
		assert.NotEmpty(t, r.Errors)
	}
}

func TestOfManyErrorsTheFirstAreSpeltOut(t *testing.T) {
	tally := newTally(1, nil, io.Discard)
	for range 2 * maxErrors {
		tally.called(anyPort, syscall.ECONNREFUSED)
	}
	r := tally.report()
	assert.Equal(t, 2*maxErrors, r.New.Refused)
	assert.Len(t, r.Errors, maxErrors)
}

func TestAHeldConnectionThatEndsEarlyIsLost(t *testing.T) {
	const early, hold = 50 * time.Millisecond, time.Second
	tests := map[string]struct {
		end   func(halfCloser)
		count func(wire.Outcomes) int
	}{
		"reset": {func(c halfCloser) { _ = c.(*net.TCPConn).SetLinger(0) }, func(o wire.Outcomes) int { return o.Reset }},
		"cut":   {func(c halfCloser) { _ = c.CloseWrite() }, func(o wire.Outcomes) int { return o.Cut + o.Reset }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := serve(t, anyPort, func(c halfCloser) {
				_ = c.SetDeadline(time.Now().Add(early))
				_, _ = io.Copy(c, c)
				test.end(c)
				_ = c.Close()
			})
			r := loadUntil(t, never, load{callers: 20, hold: hold}, a)
			assert.NotZero(t, test.count(r.New), "%+v", r.New)
			assert.Equal(t, r.New.Bad(), test.count(r.New), "%+v", r.New)
		})
	}
}

func TestAPauseOfTheServerIsAGap(t *testing.T) {
	const pause = 300 * time.Millisecond
	var calls atomic.Int32
	a := serve(t, anyPort, func(c halfCloser) {
		if calls.Add(1) == 3 { // after the first, with which the report begins
			time.Sleep(pause)
		}
		echo(c)
	})
	r := loadUntil(t, func(r wire.LoadReport) bool { return r.New.OK >= 4 }, load{callers: 1}, a)
	assert.Zero(t, r.New.Bad())
	assert.GreaterOrEqual(t, r.NewGap, pause)
}

func TestAFullQueueOfAUnixSocketMakesClientsWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	raw, err := l.(*net.UnixListener).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { require.NoError(t, unix.Listen(int(fd), 0)) }))
	a := address{"unix", path}
	first, err := dial(a, 30*time.Second)
	require.NoError(t, err)
	defer first.Close()

	_, err = dial(a, 50*time.Millisecond)
	require.Error(t, err, "the queue is full")
	tally := newTally(1, nil, t.Output())
	tally.called(a, err)
	assert.Equal(t, 1, tally.r.New.Timeout, err)
	go func() {
		time.Sleep(50 * time.Millisecond)
		_, _ = l.Accept()
	}()
	second, err := dial(a, 30*time.Second)
	require.NoError(t, err)
	_ = second.Close()
}

func TestAPatternIsTheSameInAnyPieces(t *testing.T) {
	whole, pieces := make([]byte, 1000), make([]byte, 1000)
	newPattern(7).next(whole)
	p := newPattern(7)
	for rest, n := pieces, 1; len(rest) > 0; n++ {
		n = min(n, len(rest))
		p.next(rest[:n])
		rest = rest[n:]
	}
	assert.Equal(t, whole, pieces)
	newPattern(8).next(pieces)
	assert.NotEqual(t, whole, pieces)
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string]address{
		"tcp://127.0.0.1:80": {"tcp", "127.0.0.1:80"},
		"tcp://[::1]:80":     {"tcp", "[::1]:80"},
		"unix:///run/x.sock": {"unix", "/run/x.sock"},
		"unix://@name":       {"unix", "@name"},
	} {
		got, err := parseAddress(text)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		assert.Equal(t, text, got.String())
	}
	for _, text := range []string{"", "tcp", "tcp://", "udp://127.0.0.1:80", "127.0.0.1:80"} {
		_, err := parseAddress(text)
		assert.Error(t, err, text)
	}
	_, err := parseAddresses(nil)
	assert.Error(t, err)
}
