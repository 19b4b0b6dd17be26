package handover

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// patience is how long a test waits for what is due at once.
const patience = 20 * time.Second

// instance is a service in its simplest form: who connects is told its name.
type instance struct {
	name    string
	sockets []*sock.Listener
	labels  []Label  // of the sockets; those that are missing are made of them
	lent    []Socket // for Connections

	accepting context.CancelFunc
	acceptors sync.WaitGroup

	mu        sync.Mutex
	events    []string           // what the session asked for
	tell      func(event string) // of each event, may be nil
	refuse    map[string]error   // what is not to be done
	abandoned chan struct{}      // one element for each Abandoned
	successor sock.Peer          // set before the event "shutdown"
}

func newInstance(name string, sockets ...*sock.Listener) *instance {
	return &instance{name: name, sockets: sockets, abandoned: make(chan struct{}, 100)}
}

// accept answers clients on all sockets until stopAccepting.
func (i *instance) accept() error {
	ctx, cancel := context.WithCancel(context.Background())
	i.accepting = cancel
	for _, l := range i.sockets {
		a, err := newAcceptor(l)
		if err != nil {
			return err
		}
		i.acceptors.Go(func() {
			defer a.Close()
			i.greetAll(ctx, a)
		})
	}
	return nil
}

func (i *instance) greetAll(ctx context.Context, a *acceptor) {
	for {
		fd, err := a.accept(ctx)
		if err != nil {
			return
		}
		_, _ = unix.Write(fd.Raw(), []byte(i.name+"\n"))
		_ = fd.Close()
		if ctx.Err() != nil {
			return
		}
	}
}

func (i *instance) stopAccepting() {
	if i.accepting != nil {
		i.accepting()
		i.acceptors.Wait()
		i.accepting = nil
	}
}

// close gives the sockets up: the last owner's files go with them.
func (i *instance) close(t *testing.T, owner bool) {
	t.Helper()
	i.stopAccepting()
	for _, l := range i.sockets {
		if owner {
			assert.NoError(t, l.Close())
		} else {
			assert.NoError(t, l.FD.Close())
		}
	}
}

func (i *instance) event(name string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.events = append(i.events, name)
	if i.tell != nil {
		i.tell(name)
	}
	return i.refuse[name]
}

// heard are the events until now.
func (i *instance) heard() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.events)
}

func (i *instance) Sockets() ([]Socket, error) {
	if err := i.event("sockets"); err != nil {
		return nil, err
	}
	var lent []Socket
	for n, l := range i.sockets {
		label := Label{Name: fmt.Sprint("listener", n), Origin: "bind", StoreName: l.StoreName()}
		if n < len(i.labels) {
			label = i.labels[n]
		}
		lent = append(lent, Socket{Label: label, FD: l.FD.Raw()})
	}
	return lent, nil
}

func (i *instance) BeginDraining(_ context.Context, over time.Duration) error {
	if err := i.event("drain " + over.String()); err != nil {
		return err
	}
	i.stopAccepting()
	return nil
}

func (i *instance) Connections() ([]Socket, error) {
	if err := i.event("connections"); err != nil {
		return nil, err
	}
	return i.lent, nil
}

func (i *instance) LetGo(sock.Peer) error {
	if i.lent == nil {
		return nil
	}
	return i.event("let go")
}

func (i *instance) Shutdown(successor sock.Peer) {
	i.successor = successor
	_ = i.event("shutdown")
}

func (i *instance) Abandoned() {
	if i.accepting == nil {
		if err := i.accept(); err != nil {
			panic(err)
		}
	}
	_ = i.event("abandoned")
	i.abandoned <- struct{}{}
}

func (i *instance) awaitAbandoned(t *testing.T) {
	t.Helper()
	select {
	case <-i.abandoned:
	case <-time.After(patience):
		require.Fail(t, "the original does not know that it was abandoned")
	}
}

// serving is a Serve in a goroutine.
type serving struct {
	stop  context.CancelFunc
	ended chan error
}

func serve(l *sock.Listener, o Original, options Options, log *slog.Logger) *serving {
	ctx, cancel := context.WithCancel(context.Background())
	s := &serving{stop: cancel, ended: make(chan error, 1)}
	go func() { s.ended <- Serve(ctx, l, o, options, log) }()
	return s
}

// end stops Serve, unless it has ended, and waits.
func (s *serving) end(t *testing.T) {
	t.Helper()
	s.stop()
	s.awaitEnd(t)
}

func (s *serving) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.ended:
		assert.NoError(t, err)
		s.ended <- nil
	case <-time.After(patience):
		require.Fail(t, "Serve does not end")
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// socketPath is a path for a handover socket, in a directory that is there.
func socketPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "handover.sock")
}

// newOriginal has one TCP and one Unix socket.
func newOriginal(t *testing.T) *instance {
	t.Helper()
	return newInstance("original", listen(t, loopback(0)), listen(t, sock.Unix(filepath.Join(t.TempDir(), "x.sock"))))
}

// start is a newOriginal that serves as startInstance says.
func start(t *testing.T, path string, options Options) (*instance, *serving) {
	t.Helper()
	i := newOriginal(t)
	return i, startInstance(t, path, i, options, quiet())
}

// startInstance serves at path. It is stopped and the sockets of i are closed at the
// end of the test. What i lends and refuses is settled before: a session reads it.
func startInstance(t *testing.T, path string, i *instance, options Options, log *slog.Logger) *serving {
	t.Helper()
	require.NoError(t, i.accept())
	t.Cleanup(func() { i.close(t, true) })
	l, err := Listen(path)
	require.NoError(t, err)
	s := serve(l, i, options, log)
	t.Cleanup(func() { s.end(t) })
	return s
}

func loopback(port uint16) sock.Addr {
	return sock.TCP(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port))
}

func listen(t *testing.T, a sock.Addr) *sock.Listener {
	t.Helper()
	l, err := sock.Listen(a, sock.Options{})
	require.NoError(t, err)
	return l
}

// dialSession is a session of this process, closed at the end of the test.
func dialSession(t *testing.T, path string) *Session {
	t.Helper()
	s, err := Dial(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// receiveAll is a session up to the answer with all sockets.
func receiveAll(t *testing.T, path string) (*Session, []Received) {
	t.Helper()
	s := dialSession(t, path)
	_, err := s.Hello(deadline(t), "test")
	require.NoError(t, err)
	got, err := s.SendListeningSockets(deadline(t))
	require.NoError(t, err)
	return s, got
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// takeOver is the whole protocol, to its end. The new instance accepts before the old
// one stops to, and serves the handover socket then.
func takeOver(t *testing.T, path, name string) (*instance, *serving) {
	t.Helper()
	ctx := deadline(t)
	s, got := receiveAll(t, path)
	i := adopt(t, name, got)
	require.NoError(t, i.accept())
	require.NoError(t, s.BeginDrainingConnections(ctx, 30*time.Second))
	next, err := s.ShutdownOriginalNode(ctx)
	require.NoError(t, err)
	require.NotNil(t, next)
	require.NoError(t, s.Close())
	serving := serve(next, i, Options{}, quiet())
	t.Cleanup(func() { serving.end(t) })
	return i, serving
}

// adopt makes an instance of the sockets that came.
func adopt(t *testing.T, name string, got []Received) *instance {
	t.Helper()
	i := newInstance(name)
	for _, r := range got {
		l, err := sock.AdoptStored(r.FD, r.StoreName)
		require.NoError(t, err)
		i.sockets, i.labels = append(i.sockets, l), append(i.labels, r.Label)
	}
	t.Cleanup(func() { i.close(t, false) })
	return i
}

// closeReceived closes what is not to be used.
func closeReceived(t *testing.T, got []Received) {
	t.Helper()
	for _, r := range got {
		assert.NoError(t, r.FD.Close())
	}
}

// greeting connects to the address and reads until the end.
func greeting(a sock.Addr) (name string, err error) {
	c, err := dialAddr(a)
	if err != nil {
		return "", fmt.Errorf("refused: %w", err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	text, err := io.ReadAll(c)
	if err == nil && !strings.HasSuffix(string(text), "\n") {
		err = io.ErrUnexpectedEOF
	}
	return strings.TrimSpace(string(text)), err
}

func requireServedBy(t *testing.T, name string, i *instance) {
	t.Helper()
	for _, l := range i.sockets {
		got, err := greeting(l.Addr())
		require.NoError(t, err)
		require.Equal(t, name, got, "%s", l.Addr())
	}
}

func TestTheSocketIsForItsUserAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	l, err := Listen(dir + "/handover.sock")
	require.NoError(t, err)
	defer l.Close()
	for path, want := range map[string]os.FileMode{dir: 0o700, dir + "/handover.sock": 0o600} {
		st, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, want, st.Mode().Perm(), path)
	}
}

func TestADirectoryThatCannotBeHadIsAnErrorThatSaysWhatToDo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for path, hint := range map[string]string{
		filepath.Join(t.TempDir(), "none/run/handover.sock"): "RuntimeDirectory= makes one",
		"/proc/handover.sock":                                "",
		file + "/handover.sock":                              "",
	} {
		_, err := Listen(path)
		require.ErrorContains(t, err, path)
		assert.Contains(t, sock.Hint(err), hint)
	}
}
