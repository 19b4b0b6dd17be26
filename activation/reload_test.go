package activation_test

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// hold is a socket that the process has already.
func hold(t *testing.T, origin activation.Origin, name string, a sock.Addr) activation.Socket {
	t.Helper()
	l, err := sock.Listen(a, sock.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return activation.Socket{Listener: l, Origin: origin, Name: name}
}

func holdBound(t *testing.T, a sock.Addr) activation.Socket {
	t.Helper()
	return hold(t, activation.Bind, "", a)
}

func want(name string, addrs ...sock.Addr) activation.Want {
	return activation.Want{Name: name, Addrs: addrs}
}

// on is an address at the port of a socket; "" = every address.
func on(s activation.Socket, host string) sock.Addr {
	ip, _ := netip.ParseAddr(host)
	ap := netip.AddrPortFrom(ip, s.Addr().AddrPort.Port())
	if s.Addr().Network == "udp" {
		return sock.UDP(ap)
	}
	return sock.TCP(ap)
}

func isOpen(fd *sock.FD) bool {
	_, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_GETFD, 0)
	return fd.Raw() >= 0 && err == nil
}

func TestAReloadKeepsSocketsThatAreWantedStill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	tcp, file := holdBound(t, anyPort), holdBound(t, sock.Unix(path))
	stored := hold(t, activation.Store, "socket/1", anyPort)
	unit := hold(t, activation.Systemd, "web", anyPort)
	all := []activation.Socket{tcp, file, stored, unit}
	wants := []activation.Want{want("web", file.Addr(), tcp.Addr()), want("alt", stored.Addr())}

	r := mustReload(t, wants, all)
	assert.Equal(t, []activation.Socket{tcp, file, unit}, r.Listeners[0].Sockets)
	assert.Equal(t, []activation.Socket{stored}, r.Listeners[1].Sockets)
	assert.Same(t, file.Listener, r.Listeners[0].Sockets[1].Listener)
	assert.Empty(t, r.Idle)

	require.NoError(t, r.Close(), "the caller cannot go on")
	for _, s := range all {
		assert.True(t, isOpen(s.FD), "held sockets are the caller's")
	}
	assert.FileExists(t, path)
}

func TestAReloadBindsWhatIsNewAndLeavesWhatIsNotWanted(t *testing.T) {
	keeps, goes := holdBound(t, anyPort), holdBound(t, anyPort)
	path := filepath.Join(t.TempDir(), "s")
	r := mustReload(t, []activation.Want{want("web", keeps.Addr(), sock.Unix(path))}, []activation.Socket{goes, keeps})
	assert.Equal(t, []string{"bind " + keeps.Addr().String(), "bind unix " + path}, sockets(r.Listeners[0]))
	assert.Equal(t, []activation.Socket{goes}, r.Idle)
	assert.Empty(t, r.Unwanted)
	assert.True(t, isOpen(goes.FD))

	require.NoError(t, r.Close())
	assert.NoFileExists(t, path, "what was bound is gone")
	assert.True(t, isOpen(keeps.FD))
}

func TestARefusedReloadTouchesNothing(t *testing.T) {
	taken := holdBound(t, anyPort) // by somebody else
	keeps, goes := holdBound(t, anyPort), holdBound(t, tcp("0.0.0.0:0"))
	path := filepath.Join(t.TempDir(), "s")
	r, err := activation.Acquire([]activation.Want{
		want("web", keeps.Addr(), sock.Unix(path), on(goes, "127.0.0.1")), want("alt", taken.Addr()),
	}, []activation.Socket{keeps, goes}, nil)
	require.EqualError(t, err, "listener alt ("+taken.Addr().String()+"): address already in use")
	assert.Nil(t, r)
	assert.NoFileExists(t, path)
	assert.True(t, isOpen(keeps.FD))
	assert.True(t, isOpen(goes.FD))
	assert.Equal(t, "listener web", greetedBy(t, "tcp", on(goes, "127.0.0.1").AddrPort.String(), goes), "its address is its own again")
}

// greetedBy connects, and tells who a socket's client is greeted by.
func greetedBy(t *testing.T, network, address string, s activation.Socket) string {
	t.Helper()
	c, err := net.Dial(network, address)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, greet(s, "listener web"))
	text := make([]byte, 64)
	n, err := c.Read(text)
	require.NoError(t, err)
	return string(text[:n])
}

func TestASocketOfOursDoesNotFollowItsListenerToAnotherAddress(t *testing.T) {
	for _, origin := range []activation.Origin{activation.Bind, activation.Store, activation.Pidfd} {
		moves := hold(t, origin, "web", anyPort)
		r := mustReload(t, []activation.Want{want("web", anyPort), {Name: "any", TakesAny: true, Addrs: []sock.Addr{anyPort}}},
			[]activation.Socket{moves})
		for _, l := range r.Listeners {
			require.Len(t, l.Sockets, 1)
			assert.Equal(t, activation.Bind, l.Sockets[0].Origin)
			assert.NotEqual(t, moves.Addr(), l.Sockets[0].Addr())
		}
		assert.Equal(t, []activation.Socket{moves}, r.Idle)
	}
}

func TestAUnitsSocketWaitsForItsListenerToComeBack(t *testing.T) {
	unit := hold(t, activation.Systemd, "web", anyPort)
	r := mustReload(t, []activation.Want{want("other", anyPort)}, []activation.Socket{unit})
	assert.Equal(t, []activation.Socket{unit}, r.Idle)
	r = mustReload(t, []activation.Want{{Name: "web"}}, r.Idle)
	assert.Equal(t, []activation.Socket{unit}, r.Listeners[0].Sockets)
}

// Each row is a config before and after; the first socket is our own.
func TestAnAddressIsChangedWithoutAGap(t *testing.T) {
	for _, tt := range []struct {
		symptom  string
		from, to string
		same     bool
	}{
		{"narrowed", "0.0.0.0", "127.0.0.1", false},
		{"widened", "127.0.0.1", "0.0.0.0", false},
		{"IPv6 left out", "", "0.0.0.0", false},
		{"IPv6 added", "0.0.0.0", "", false},
		{"IPv4 left out", "", "::", false},
		{"IPv4 added", "::", "", false},
		{"other family", "0.0.0.0", "::", false},
		{"unchanged", "0.0.0.0", "0.0.0.0", true},
		{"unchanged, IPv6", "::", "::", true},
		{"unchanged, every address", "", "", true},
	} {
		for _, network := range []string{"tcp", "udp"} {
			t.Run(network+" "+tt.symptom, func(t *testing.T) {
				from, _ := netip.ParseAddr(tt.from)
				old := holdBound(t, sock.Addr{Network: network, AddrPort: netip.AddrPortFrom(from, 0)})
				r := mustReload(t, []activation.Want{want("web", on(old, tt.to))}, []activation.Socket{old})
				require.Len(t, r.Listeners[0].Sockets, 1)
				fresh := r.Listeners[0].Sockets[0]
				if tt.same {
					assert.Same(t, old.Listener, fresh.Listener)
					assert.Empty(t, r.Idle)
					return
				}
				assert.Equal(t, []sock.Addr{on(old, tt.to)}, fresh.Info.ListenAddrs())
				assert.Equal(t, []activation.Socket{old}, r.Idle)

				back := mustReload(t, []activation.Want{want("web", on(old, tt.from))}, []activation.Socket{old, fresh})
				assert.Same(t, old.Listener, back.Listeners[0].Sockets[0].Listener, "and back, while both are there")
			})
		}
	}
}

func TestWildcardsAreSplitAndJoined(t *testing.T) {
	both := holdBound(t, everybody)
	split := mustReload(t, []activation.Want{want("web", on(both, "0.0.0.0"), on(both, "::"))}, []activation.Socket{both})
	require.Len(t, split.Listeners[0].Sockets, 2)
	halves := split.Listeners[0].Sockets
	require.NoError(t, both.Close())

	joined := mustReload(t, []activation.Want{want("web", on(both, ""))}, halves)
	require.Len(t, joined.Listeners[0].Sockets, 1)
	assert.Equal(t, halves, joined.Idle)
}

func TestListenersThatOverlapAreRefusedInAReloadToo(t *testing.T) {
	old := holdBound(t, tcp("0.0.0.0:0"))
	for _, tt := range []struct{ one, two string }{
		{"0.0.0.0", "127.0.0.1"}, // the one keeps its socket
		{"", "127.0.0.1"},        // both would be bound beside the old one
		{"", "0.0.0.0"},
	} {
		_, err := activation.Acquire([]activation.Want{want("one", on(old, tt.one)), want("two", on(old, tt.two))},
			[]activation.Socket{old}, nil)
		var le *activation.ListenerError
		require.ErrorAs(t, err, &le)
		require.ErrorIs(t, err, unix.EADDRINUSE)
		assert.Contains(t, le.Hint(), ": two sockets cannot share an address")
	}
}

func TestASocketOfAUnitInTheWayIsNamed(t *testing.T) {
	unit := hold(t, activation.Systemd, "web", tcp("0.0.0.0:0"))
	_, err := activation.Acquire([]activation.Want{want("alt", on(unit, "127.0.0.1"))}, []activation.Socket{unit}, nil)
	require.ErrorIs(t, err, unix.EADDRINUSE)
	var le *activation.ListenerError
	require.ErrorAs(t, err, &le)
	assert.Equal(t, "a socket unit has "+unit.Addr().String()+
		", and no listener takes it: change the unit, or give a listener that address", le.Hint())
}

func TestAUnixSocketWhosePathVanishedIsBoundAnew(t *testing.T) {
	for _, origin := range []activation.Origin{activation.Bind, activation.Store} {
		path := filepath.Join(t.TempDir(), "s")
		old := hold(t, origin, "", sock.Unix(path))
		wants := []activation.Want{want("web", old.Addr())}
		require.NoError(t, os.Remove(path))

		r := mustReload(t, wants, []activation.Socket{old})
		assert.Equal(t, []activation.Socket{old}, r.Idle)
		fresh := r.Listeners[0].Sockets[0]
		assert.Equal(t, "listener web", greetedBy(t, "unix", path, fresh))

		r = mustReload(t, wants, []activation.Socket{old, fresh})
		assert.Same(t, fresh.Listener, r.Listeners[0].Sockets[0].Listener, "of two at one path the one that is there")
		assert.Equal(t, [][]activation.Socket{{old, fresh}}, activation.Match(wants, []activation.Socket{old, fresh}))
		require.NoError(t, old.Close())
		assert.FileExists(t, path)
	}
}

func TestARetiredSocketIsNotServedAgain(t *testing.T) {
	old := holdBound(t, anyPort)
	wants := []activation.Want{want("web", old.Addr())}
	require.NoError(t, old.Retire())
	r := mustReload(t, wants, []activation.Socket{old})
	assert.Equal(t, []activation.Socket{old}, r.Idle)
	assert.Equal(t, "listener web", greetedBy(t, "tcp", old.Addr().AddrPort.String(), r.Listeners[0].Sockets[0]))
	assert.Equal(t, [][]activation.Socket{{old}}, activation.Match(wants, []activation.Socket{old}), "its queue is that listener's")
}

func TestACopyOfAHeldSocketIsClosed(t *testing.T) {
	held := holdBound(t, anyPort)
	second := dup(t, activation.Offer{FD: held.FD}, "web")
	r := mustReload(t, []activation.Want{want("web", held.Addr())}, []activation.Socket{held}, systemd(t, second))
	assert.Equal(t, []activation.Socket{held}, r.Listeners[0].Sockets)
	assert.Len(t, r.Duplicates, 1)
	assert.False(t, isOpen(second.FD))
	assert.True(t, isOpen(held.FD))
}

// A socket that leaves may take a while: its address comes back beside it.
func TestAnAddressIsBoundBesideASocketThatLeaves(t *testing.T) {
	leaves := holdBound(t, anyPort)
	require.NoError(t, leaves.Retire())
	wants := []activation.Want{want("web", leaves.Addr())}
	_, err := activation.Acquire(wants, nil, nil)
	require.ErrorIs(t, err, unix.EADDRINUSE)

	r, err := activation.Acquire(wants, nil, nil, leaves.Listener)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	assert.Equal(t, []string{"bind " + leaves.Addr().String()}, sockets(r.Listeners[0]))
	assert.Empty(t, r.Idle, "nobody gets the one that leaves")
	for range 10 {
		client, err := net.Dial("tcp", leaves.Addr().AddrPort.String())
		require.NoError(t, err)
		server, _, err := unix.Accept(r.Listeners[0].Sockets[0].FD.Raw())
		require.NoError(t, err, "the client is in the queue of the new one")
		require.NoError(t, unix.Close(server))
		require.NoError(t, client.Close())
	}
}

func TestNobodyGetsToWhatIsAboutToBeTakenBack(t *testing.T) {
	keeps := holdBound(t, anyPort)
	r := mustReload(t, []activation.Want{want("web", keeps.Addr(), anyPort)}, []activation.Socket{keeps})
	r.Retire()
	_, err := net.Dial("tcp", r.Listeners[0].Sockets[1].Addr().AddrPort.String())
	require.ErrorIs(t, err, unix.ECONNREFUSED)
	client, err := net.Dial("tcp", keeps.Addr().AddrPort.String())
	require.NoError(t, err, "that was there before")
	require.NoError(t, client.Close())
}
