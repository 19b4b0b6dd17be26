package integration

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// load is clients that connect to addresses with an echo server behind them, again and
// again.
type load struct {
	over    chan struct{}
	clients sync.WaitGroup

	mu     sync.Mutex
	counts outcomes
	first  string // what happened to the first that was not served
}

// outcomes count connections by how they ended.
type outcomes struct {
	Served  int
	Refused int // nobody listened
	Lost    int // accepted, and not served to the end
}

// startLoad returns when each client was served once.
func startLoad(t testing.TB, addresses ...string) *load {
	t.Helper()
	l := &load{over: make(chan struct{})}
	var begun sync.WaitGroup
	for _, address := range addresses {
		begun.Add(1)
		l.clients.Go(func() { l.call(address, sync.OnceFunc(begun.Done)) })
	}
	t.Cleanup(func() { l.stop() })
	begun.Wait()
	return l
}

// call ends with the load.
func (l *load) call(address string, begun func()) {
	defer begun()
	for {
		err := callOnce(address)
		l.count(address, err)
		if err == nil {
			begun()
		}
		select {
		case <-l.over:
			return
		case <-time.After(rand.N(4 * time.Millisecond)): // who keeps no step meets any moment
		}
	}
}

// callOnce is one connection: a line there and back, and an end in order.
func callOnce(address string) error {
	const line = "hello\n"
	conn, err := testbed.Dial(address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, line); err != nil {
		return err
	}
	if err := conn.(stream).CloseWrite(); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	if err == nil && string(answer) != line {
		return fmt.Errorf("answered by %q", answer)
	}
	return err
}

func (l *load) count(address string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.counts.Served++
		return
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT):
		l.counts.Refused++
	default:
		l.counts.Lost++
	}
	if l.first == "" {
		l.first = address + ": " + err.Error()
	}
}

// stop lets each client end what it has begun.
func (l *load) stop() outcomes {
	select {
	case <-l.over:
	default:
		close(l.over)
	}
	l.clients.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// assertNoneLost ends the load.
func (l *load) assertNoneLost(t *testing.T) {
	t.Helper()
	l.assertLostAtMost(t, 0)
}

// assertLostAtMost ends the load, of which nobody was refused.
func (l *load) assertLostAtMost(t *testing.T, lost int) {
	t.Helper()
	counts := l.stop()
	t.Logf("load: %+v", counts)
	assert.Positive(t, counts.Served)
	assert.Zero(t, counts.Refused, l.first)
	assert.LessOrEqual(t, counts.Lost, lost, l.first)
}
