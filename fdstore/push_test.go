package fdstore_test

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/storetest"
)

func TestWhatWasPushedComesBackWithTheClientsInItsQueue(t *testing.T) {
	manager := storetest.Start(t, 10)
	store := open(t, manager.Notifier(), fdstore.Options{Max: 10})
	l, err := sock.Listen(sock.TCP(netip.MustParseAddrPort("127.0.0.1:0")), sock.Options{})
	require.NoError(t, err)
	state, err := fdstore.Memfd("state", []byte("generation 1"))
	require.NoError(t, err)
	require.NoError(t, store.Push(t.Context(), fdstore.Entry{Name: "socket/1", FD: l.FD.Raw()}, fdstore.Entry{Name: "state/1", FD: state.Raw()}))
	assert.Equal(t, []string{"socket/1", "state/1"}, store.Names())
	assert.Equal(t, 2, store.Len())

	client, err := net.Dial("tcp", l.Addr().AddrPort.String())
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, l.Close()) // as a killed process does
	require.NoError(t, state.Close())

	settled(t, manager)
	held := manager.Pass()
	defer closeAll(t, held)
	require.Equal(t, []string{"state/1", "socket/1"}, []string{held[0].Name, held[1].Name}, "last first, as from systemd")
	content, err := fdstore.ReadMemfd(held[0].FD.Raw(), 100)
	require.NoError(t, err)
	assert.Equal(t, "generation 1", string(content))
	accepted, _, err := unix.Accept4(held[1].FD.Raw(), unix.SOCK_CLOEXEC)
	require.NoError(t, err, "the client still waits")
	owned(t, accepted)
}

func TestADescriptorStaysAlsoWhenItsPeerIsGone(t *testing.T) {
	manager := storetest.Start(t, 10)
	store := open(t, manager.Notifier(), fdstore.Options{Max: 10})
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, store.Push(t.Context(), fdstore.Entry{Name: "with data", FD: owned(t, pair[0])}))
	_, err = unix.Write(pair[1], []byte("unread"))
	require.NoError(t, err)
	require.NoError(t, unix.Close(pair[1]))
	require.NoError(t, store.Push(t.Context(), entries(t, 0, 1)...), "time enough to see the end")
	assert.Equal(t, []string{"entry/0000", "with data"}, settled(t, manager))
}

func TestAPushIsWholeOrNotAtAll(t *testing.T) {
	const places = 5
	for _, tt := range []struct {
		name  string
		max   int // that the program believes in
		push  []int
		fits  []bool
		error string
	}{
		{
			"known", places,
			[]int{3, 2, 1, 1},
			[]bool{true, false, true, false},
			"no room in the descriptor store: 4 of its 5 places are taken, 1 more are wanted and one has to stay free",
		},
		{
			"not known", 0,
			[]int{3, 2, 1, 1},
			[]bool{true, false, true, false},
			"the descriptor store is full: the service manager dropped some of 1 descriptors beside the 4 that it has",
		},
		{
			"not what it was", 100,
			[]int{9, 5, 4, 1},
			[]bool{false, false, true, false},
			"the descriptor store is full: the service manager dropped some of 1 descriptors beside the 4 that it has",
		},
	} {
		t.Run("Max is "+tt.name, func(t *testing.T) {
			manager := storetest.Start(t, places)
			store := open(t, manager.Notifier(), fdstore.Options{Max: tt.max})
			var want []string
			var last error
			for i, n := range tt.push {
				list := entries(t, 10*i, n)
				last = store.Push(t.Context(), list...)
				if tt.fits[i] {
					require.NoError(t, last)
					want = append(want, names(list)...)
				} else {
					var full *fdstore.FullError
					require.ErrorAs(t, last, &full)
					assert.Equal(t, fdstore.FullError{Used: len(want), Wanted: n, Max: tt.max}, *full)
					assert.Len(t, manager.Names(), len(want), "at once")
				}
				assert.Equal(t, want, store.Names())
				assert.Equal(t, want, settled(t, manager))
			}
			assert.EqualError(t, last, tt.error)
		})
	}
}

func TestAStoreThatWasMadeSmallerIsFull(t *testing.T) {
	manager := storetest.Start(t, 10)
	store := open(t, manager.Notifier(), fdstore.Options{Max: 10})
	first := entries(t, 0, 5)
	require.NoError(t, store.Push(t.Context(), first...))
	manager.Resize(4)
	var full *fdstore.FullError
	require.ErrorAs(t, store.Push(t.Context(), entries(t, 10, 1)...), &full)
	assert.Equal(t, "raise FileDescriptorStoreMax= of the unit to 7 or more, and keep its LimitNOFILE= well above that", full.Hint())
	assert.Equal(t, names(first), settled(t, manager))
}

func TestAStoreThatWasMadeLargerHasRoom(t *testing.T) {
	manager := storetest.Start(t, 3)
	store := open(t, manager.Notifier(), fdstore.Options{Max: 3})
	all := entries(t, 0, 5)
	var full *fdstore.FullError
	require.ErrorAs(t, store.Push(t.Context(), all...), &full)
	manager.Resize(6)
	store.Resize(6)
	require.NoError(t, store.Push(t.Context(), all...))
	assert.Equal(t, 6, store.Max())
}

func TestWhatCannotBeKeptIsRefusedBeforeAnythingIsSent(t *testing.T) {
	manager := storetest.Start(t, 10)
	line := newLine(manager.Notifier())
	store := open(t, line, fdstore.Options{Max: 10})
	memfd, err := fdstore.Memfd("x", nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, memfd.Close()) })
	pipe := make([]int, 2)
	require.NoError(t, unix.Pipe2(pipe, unix.O_CLOEXEC))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	again, err := unix.FcntlInt(uintptr(socket), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	for _, raw := range append(pipe, socket, again) {
		owned(t, raw)
	}
	require.NoError(t, store.Push(t.Context(),
		fdstore.Entry{Name: "memfd", FD: memfd.Raw()},
		fdstore.Entry{Name: "read end", FD: pipe[0]},
		fdstore.Entry{Name: "write end", FD: pipe[1]},
		fdstore.Entry{Name: "socket", FD: socket}))
	kept, sent := settled(t, manager), line.messages

	free := fdstore.Entry{Name: "free", FD: eventfd(t)}
	for _, tt := range []struct {
		entry fdstore.Entry
		error string
	}{
		{fdstore.Entry{Name: "", FD: free.FD}, `"" is no name for a kept descriptor: 1 to 255 bytes of printable ASCII without a colon`},
		{fdstore.Entry{Name: "a:b", FD: free.FD}, `"a:b" is no name`},
		{fdstore.Entry{Name: "a\nREADY=1", FD: free.FD}, `"a\nREADY=1" is no name`},
		{fdstore.Entry{Name: "größe", FD: free.FD}, `"größe" is no name`},
		{fdstore.Entry{Name: "\xff", FD: free.FD}, `"\xff" is no name`},
		{fdstore.Entry{Name: "a\x7f", FD: free.FD}, `"a\x7f" is no name`},
		{fdstore.Entry{Name: strings.Repeat("x", 256), FD: free.FD}, `xxxx" is no name`},
		{fdstore.Entry{Name: "canary/1", FD: free.FD}, "canary/1 is no name for a kept descriptor: canary/ is for the store's own"},
		{fdstore.Entry{Name: "socket", FD: free.FD}, "socket is in the descriptor store already"},
		{free, "free is in the descriptor store already"},
		{fdstore.Entry{Name: "other", FD: again}, "other is the same file as socket, and the descriptor store keeps it once"},
		{fdstore.Entry{Name: "other", FD: memfd.Raw()}, "other is the same file as memfd"},
		{fdstore.Entry{Name: "other", FD: -1}, "other cannot be kept: SO_COOKIE of descriptor -1: bad file descriptor"},
	} {
		err := store.Push(t.Context(), free, tt.entry)
		assert.ErrorContains(t, err, tt.error)
		assert.False(t, store.Has("free"))
	}
	require.NoError(t, store.Push(t.Context()), "nothing to do")
	assert.Equal(t, sent, line.messages)
	assert.Equal(t, kept, settled(t, manager))
}

func TestNamesFitIntoTheEnvironmentOfTheNextProcess(t *testing.T) {
	manager := storetest.Start(t, 1000)
	store := open(t, manager.Notifier(), fdstore.Options{Max: 1000})
	list := entries(t, 0, 401)
	for i := range list {
		list[i].Name += strings.Repeat("x", 255-len(list[i].Name))
	}
	require.NoError(t, store.Push(t.Context(), list[:400]...))
	var full *fdstore.FullError
	require.ErrorAs(t, store.Push(t.Context(), list[400:]...), &full)
	assert.EqualError(t, full, "no room in the descriptor store: the names of 401 descriptors come to 102656 bytes, and 102400 are safe")
	assert.Equal(t, "fewer listeners, or shorter names, would fit", full.Hint())
	require.NoError(t, store.Remove(t.Context(), list[7].Name))
	require.NoError(t, store.Push(t.Context(), list[400:]...))
	assert.Less(t, len(strings.Join(manager.Names(), ":")), 128<<10)
}

func TestAThousandAreOneShortPush(t *testing.T) {
	manager := storetest.Start(t, 1001)
	line := newLine(manager.Notifier())
	store := open(t, line, fdstore.Options{Max: 1001})
	list := entries(t, 0, 1000)
	opened := line.messages
	began := time.Now()
	require.NoError(t, store.Push(t.Context(), list...))
	assert.Less(t, time.Since(began), 10*time.Second)
	assert.Equal(t, names(list), settled(t, manager))
	assert.Equal(t, 1000+2, line.messages-opened, "one message each, and those of one canary")
	assert.LessOrEqual(t, line.most, 65, "more in flight could keep others of the user from passing any")
}

func TestAPushThatBreaksOffLeavesNothing(t *testing.T) {
	const size = 3
	for after := range size + 1 { // before an entry, or before the canary
		manager := storetest.Start(t, 10)
		line := newLine(manager.Notifier())
		store := open(t, line, fdstore.Options{Max: 10})
		first := entries(t, 0, 1)
		require.NoError(t, store.Push(t.Context(), first...))

		line.breakAfter(after)
		require.ErrorIs(t, store.Push(t.Context(), entries(t, 10, size)...), errBroken)
		assert.Equal(t, names(first), store.Names())
		assert.Len(t, settled(t, manager), 1+after, "what was sent is there as long as the manager cannot be told")
		require.ErrorIs(t, store.Remove(t.Context(), "entry/0000"), errBroken)

		line.breakAfter(-1)
		second := entries(t, 10, size) // the same names
		require.NoError(t, store.Push(t.Context(), second...))
		want := names(slices.Concat(first, second))
		assert.Equal(t, want, store.Names())
		assert.Equal(t, want, settled(t, manager))
	}
}
