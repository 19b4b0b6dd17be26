package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
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

// loadFor puts addresses under load for a moment after every client was served,
// or for as long as that may take.
func loadFor(t *testing.T, moment time.Duration, l load, addresses ...address) wire.LoadReport {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	l.pause, l.log = time.Millisecond, t.Output()
	if l.patience == 0 {
		l.patience = 5 * time.Second
	}
	return l.run(ctx, addresses, func() error {
		time.AfterFunc(moment, stop)
		return nil
	})
}

func TestAGoodServerLosesNobody(t *testing.T) {
	tcp := serve(t, anyPort, echo)
	unix := serve(t, address{"unix", filepath.Join(t.TempDir(), "s")}, echo)
	r := loadFor(t, 200*time.Millisecond, load{streams: 3, callers: 2}, tcp, unix)
	assert.Zero(t, r.New.Bad())
	assert.Zero(t, r.Streams.Bad())
	assert.Equal(t, 6, r.Streams.OK)
	assert.Greater(t, r.New.OK, 4)
	assert.Greater(t, r.StreamBytes, int64(6*pieces[0]), "more than the first piece of each")
	assert.Empty(t, r.Errors)
}

func TestEachWayToLoseAClientIsCounted(t *testing.T) {
	tests := map[string]struct {
		server func(halfCloser)
		count  func(wire.Outcomes) int
	}{
		"reset": {func(c halfCloser) {
			_, _ = io.ReadFull(c, make([]byte, 1))
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}, func(o wire.Outcomes) int { return o.Reset }},
		"cut": {func(c halfCloser) {
			_, _ = io.CopyN(c, c, 1)
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}, func(o wire.Outcomes) int { return o.Cut }},
		"wrong": {func(c halfCloser) {
			b := make([]byte, 1)
			_, _ = io.ReadFull(c, b)
			b[0]++
			_, _ = c.Write(b)
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}, func(o wire.Outcomes) int { return o.Wrong }},
		"timeout": {func(c halfCloser) {
			<-t.Context().Done()
			_ = c.Close()
		}, func(o wire.Outcomes) int { return o.Timeout }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := serve(t, anyPort, test.server)
			r := loadFor(t, 0, load{streams: 1, callers: 1, patience: 300 * time.Millisecond}, a)
			for what, o := range map[string]wire.Outcomes{"new": r.New, "streams": r.Streams} {
				assert.NotZero(t, test.count(o), "%s: %+v", what, o)
				assert.Equal(t, o.Bad(), test.count(o), "%s: %+v %v", what, o, r.Errors)
			}
			assert.NotEmpty(t, r.Errors)
			assert.LessOrEqual(t, len(r.Errors), maxErrors)
		})
	}
}

func TestWhereNobodyListensClientsAreRefused(t *testing.T) {
	l, err := anyPort.listen()
	require.NoError(t, err)
	closed := address{"tcp", l.Addr().String()}
	require.NoError(t, l.Close())
	missing := address{"unix", filepath.Join(t.TempDir(), "missing")}
	r := loadFor(t, 0, load{streams: 1, callers: 1}, closed, missing)
	assert.NotZero(t, r.New.Refused)
	assert.Equal(t, r.New.Bad(), r.New.Refused)
	assert.NotZero(t, r.Streams.Refused)
	assert.Zero(t, r.New.OK+r.Streams.OK)
}

func TestAPauseOfTheServerIsAGap(t *testing.T) {
	const pause = 300 * time.Millisecond
	began := time.Now()
	a := serve(t, anyPort, func(c halfCloser) {
		if since := time.Since(began); since > 100*time.Millisecond && since < 100*time.Millisecond+pause {
			time.Sleep(pause)
		}
		echo(c)
	})
	r := loadFor(t, time.Second, load{callers: 1}, a)
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
	first, err := dial(a, time.Second)
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
	second, err := dial(a, 5*time.Second)
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
