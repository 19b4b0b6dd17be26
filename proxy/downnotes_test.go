package proxy

import (
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/relay"
	"github.com/holdfast-proxy/holdfast/proxy/upstream"
)

// notebook is a vault with room for notes alone.
type notebook struct {
	mu    sync.Mutex
	last  uint32
	notes map[uint32][]byte
	count atomic.Int64 // of all notes
}

func (*notebook) Take() (uint32, []byte, bool)    { return 0, nil, false }
func (*notebook) Keep(uint32, int32, int32) bool  { return false }
func (*notebook) Drop(uint32)                     {}
func (*notebook) Slab() ([]byte, uint32, error)   { return nil, 0, errors.New("no room") }
func (*notebook) AdoptSlab(uint32) ([]byte, bool) { return nil, false }
func (n *notebook) Counter(uint32) *atomic.Int64  { return &n.count }
func (n *notebook) attach(e *Engine) {
	e.Attach([]relay.Vault{n, n}, make([]byte, relay.TotalsSize), n.left())
}

func (n *notebook) DropNote(number uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.notes, number)
}

func (n *notebook) left() map[uint32][]byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.notes)
}

func (n *notebook) Note(c []byte) (uint32, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notes == nil {
		n.notes = map[uint32][]byte{}
	}
	n.last++
	n.notes[n.last] = c
	return n.last, true
}

// servers are the notes of servers.
func (n *notebook) servers() []string {
	var found []string
	for _, content := range n.left() {
		if strings.Contains(string(content), `"kind":"server"`) {
			found = append(found, string(content))
		}
	}
	slices.Sort(found)
	return found
}

// checking is a configuration of a listener "web" in front of servers that are probed.
func checking(t *testing.T, servers ...string) *config.Config {
	t.Helper()
	text := `
[listener.web]
upstream = "app"
[upstream.app]
servers = ["tcp://` + strings.Join(servers, `", "tcp://`) + `"]
health = { interval = "10ms", timeout = "1s", rise = 2, fall = 2 }
`
	cfg, err := config.Parse("test.toml", []byte(text), nil, config.Overrides{})
	require.NoError(t, err)
	return cfg
}

// refusing is an address where nobody listens, until it does.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// attached is an engine that serves a configuration, with a vault from the start.
func attached(t *testing.T, n *notebook, cfg *config.Config) *Engine {
	t.Helper()
	e, err := New(Options{Version: "test", Loops: 2, Descriptors: 20000, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	n.attach(e)
	apply(t, e, 1, cfg)
	return e
}

func noteOf(server string) string {
	return `{"kind":"server","upstream":"app","server":"tcp://` + server + `","address":"tcp ` + server + `","error":"connection refused"}`
}

func TestTheNextProcessKnowsWhichServersAreDown(t *testing.T) {
	n, dead, good := new(notebook), refusing(t), echoServer(t)
	first := attached(t, n, checking(t, dead, good))
	require.Eventually(t, func() bool { return len(n.servers()) == 1 }, patience, time.Millisecond)
	assert.Equal(t, []string{noteOf(dead)}, n.servers())
	first.downNotes.letGo() // as if it was killed
	first.Stop(atOnce(), Ending{})

	slow := checking(t, dead, good)
	slow.Upstreams[0].Health.Fall = 1000 // it would find out too late
	second := attached(t, n, slow)
	servers := second.Status().Upstreams[0].Servers
	assert.False(t, servers[0].Healthy)
	assert.Equal(t, "connection refused", servers[0].LastError)
	assert.True(t, servers[1].Healthy)
	assert.Equal(t, []string{noteOf(dead)}, n.servers(), "and the one after that")

	l, err := net.Listen("tcp", dead)
	require.NoError(t, err)
	defer l.Close()
	require.Eventually(t, func() bool { return second.Status().Upstreams[0].Servers[0].Healthy }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return len(n.servers()) == 0 }, patience, time.Millisecond, "it is up again")
	second.Stop(atOnce(), Ending{})
}

func TestServersThatAreGoneAreForgotten(t *testing.T) {
	n, gone, dead := new(notebook), refusing(t), refusing(t)
	for _, text := range []string{noteOf(gone), noteOf(gone), `{"kind":"later"}`} {
		_, ok := n.Note([]byte(text))
		require.True(t, ok)
	}
	e := attached(t, n, checking(t, dead))
	defer e.Stop(atOnce(), Ending{})
	require.Eventually(t, func() bool { return slices.Equal(n.servers(), []string{noteOf(dead)}) }, patience, time.Millisecond)
	apply(t, e, 2, checking(t, echoServer(t)))
	assert.Empty(t, n.servers())
	assert.Contains(t, n.left(), uint32(3), "it is not known what that is")
}

func TestBeforeTheFirstGenerationNothingIsForgotten(t *testing.T) {
	var d downNotes
	n := new(notebook)
	_, ok := n.Note([]byte(noteOf("192.0.2.1:80")))
	require.True(t, ok)
	d.attach(n, n.left())
	nobody := func() []upstream.Down { return nil }
	d.settle(nobody)
	assert.Len(t, n.servers(), 1)
	assert.Len(t, d.known(), 1)
	d.begin()
	assert.Empty(t, d.known(), "a pool that comes later is not told: it may be long ago")
	d.settle(nobody)
	assert.Empty(t, n.servers())
}

func TestWhatWasLetGoIsAnotherProcesss(t *testing.T) {
	n, dead := new(notebook), refusing(t)
	e := attached(t, n, checking(t, dead))
	defer e.Stop(atOnce(), Ending{})
	require.Eventually(t, func() bool { return len(n.servers()) == 1 }, patience, time.Millisecond)
	e.LetGo()
	apply(t, e, 2, checking(t, echoServer(t)))
	assert.Len(t, n.servers(), 1)
	n.attach(e)
	assert.Empty(t, n.servers(), "until this one has it again")
}

func TestNotesOfServersLeaveRoomForConnections(t *testing.T) {
	book := &notebook{}
	var d downNotes
	d.attach(book, nil)
	d.begin()
	down := make([]upstream.Down, 2*mostDown)
	for i := range down {
		down[i].Address = strconv.Itoa(i)
	}
	for range 2 {
		d.settle(func() []upstream.Down { return down })
		assert.Len(t, book.servers(), mostDown)
	}
	d.settle(func() []upstream.Down { return down[:3] })
	assert.Len(t, book.servers(), 3)
}
