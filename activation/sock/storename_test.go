package sock_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// comeBack is a listener in its next life: a store had a copy of its descriptor.
func comeBack(t *testing.T, l *sock.Listener, name string) *sock.Listener {
	t.Helper()
	raw, err := unix.FcntlInt(uintptr(l.FD.Raw()), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	back, err := sock.AdoptStored(sock.NewFD(raw), name)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, back.Close()) })
	return back
}

func TestStoreNamesAreUniqueAndComeBackTheSame(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range []sock.Addr{
		tcp("127.0.0.1:0"), tcp("127.0.0.1:0"), udp("127.0.0.1:0"), sock.Unix(socketPath(t)), sock.Unix("@" + socketPath(t)),
	} {
		l := mustListen(t, a, sock.Options{})
		name := l.StoreName()
		assert.False(t, seen[name])
		seen[name] = true
		assert.Less(t, len(name), 64)
		assert.True(t, sock.IsStoreName(name), name)
		assert.Equal(t, name, comeBack(t, l, name).StoreName())
	}
}

func TestAStoredUnixSocketOwnsItsFileAgain(t *testing.T) {
	path := socketPath(t)
	l := mustListen(t, sock.Unix(path), sock.Options{})
	back := comeBack(t, l, l.StoreName())
	assert.True(t, back.Reachable())
	require.NoError(t, back.Close())
	assert.NoFileExists(t, path)
}

func TestAStoredUnixSocketLeavesWhatIsNotItsOwn(t *testing.T) {
	for _, tt := range []struct {
		symptom   string
		name      func(l, other *sock.Listener) string
		reachable bool
	}{
		{"without the file in its name", func(l, _ *sock.Listener) string { return strings.Split(l.StoreName(), ".")[0] }, true},
		{"with the name of another socket", func(_, other *sock.Listener) string { return other.StoreName() }, true},
		{"without a name", func(_, _ *sock.Listener) string { return "" }, true},
		{"with a file that has gone", func(l, _ *sock.Listener) string {
			i := strings.LastIndex(l.StoreName(), ".")
			return l.StoreName()[:i] + ".1"
		}, false},
	} {
		t.Run(tt.symptom, func(t *testing.T) {
			path := socketPath(t)
			l, other := mustListen(t, sock.Unix(path), sock.Options{}), mustListen(t, sock.Unix(socketPath(t)), sock.Options{})
			back := comeBack(t, l, tt.name(l, other))
			assert.Equal(t, tt.reachable, back.Reachable())
			require.NoError(t, back.Close())
			assert.True(t, answers(path))
		})
	}
}

func TestAnAdoptedSocketIsUnreachableWhenItsPathIsGone(t *testing.T) {
	path := socketPath(t)
	l := mustListen(t, sock.Unix(path), sock.Options{})
	back := comeBack(t, l, l.StoreName())
	stranger := comeBack(t, l, "")
	for _, x := range []*sock.Listener{l, back, stranger} {
		assert.True(t, x.Reachable())
	}
	require.NoError(t, os.Remove(path))
	for _, x := range []*sock.Listener{l, back, stranger} {
		assert.False(t, x.Reachable(), "the path has gone")
	}
	mustListen(t, sock.Unix(path), sock.Options{})
	assert.False(t, l.Reachable(), "the path is another's")
	assert.False(t, back.Reachable(), "the path is another's")
	require.NoError(t, back.Close())
	assert.True(t, answers(path))
}

func TestAdoptStoredLeavesTheDescriptorWithTheCallerWhenItFails(t *testing.T) {
	r, _ := openPipe(t)
	_, err := sock.AdoptStored(r, "socket/1")
	require.Error(t, err)
	assert.NotEqual(t, -1, r.Raw())
}

func TestIsStoreName(t *testing.T) {
	for name, want := range map[string]bool{
		"socket/0": true, "socket/3f": true, "socket/ffffffffffffffff": true, "socket/3f.1a.2b07": true,
		"": false, "web": false, "socket/": false, "socket/3F": false, "socket/03": false, "socket/+3": false,
		"socket/3f.1a": false, "socket/3f.1a.2b.1": false, "socket/3f..1": false, "socket/3f.": false,
		"socket/10000000000000000": false, "socket/3f ": false, "state/1": false, "Socket/3f": false,
	} {
		assert.Equal(t, want, sock.IsStoreName(name), "%q", name)
	}
}
