package activation_test

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func tcp(s string) sock.Addr {
	return sock.TCP(netip.MustParseAddrPort(s))
}

var (
	anyPort   = tcp("127.0.0.1:0")
	everybody = sock.TCP(netip.AddrPort{})
)

// offer is a listening socket that "arrives" under a name.
func offer(t *testing.T, name string, a sock.Addr) activation.Offer {
	t.Helper()
	l, err := sock.Listen(a, sock.Options{})
	require.NoError(t, err)
	return activation.Offer{Name: name, FD: l.FD}
}

func offerSocket(t *testing.T, name string, typ int, sa unix.Sockaddr) activation.Offer {
	t.Helper()
	raw, err := unix.Socket(unix.AF_UNIX, typ|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	if sa != nil {
		require.NoError(t, unix.Bind(raw, sa))
	}
	return activation.Offer{Name: name, FD: sock.NewFD(raw)}
}

func dup(t *testing.T, o activation.Offer, name string) activation.Offer {
	t.Helper()
	raw, err := unix.FcntlInt(uintptr(o.FD.Raw()), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	return activation.Offer{Name: name, FD: sock.NewFD(raw)}
}

func addr(t *testing.T, o activation.Offer) sock.Addr {
	t.Helper()
	i, err := sock.Classify(o.FD.Raw())
	require.NoError(t, err)
	return i.Addr
}

func systemd(t *testing.T, offers ...activation.Offer) *activation.Source {
	t.Helper()
	return from(t, activation.Systemd, offers...)
}

func from(t *testing.T, origin activation.Origin, offers ...activation.Offer) *activation.Source {
	t.Helper()
	s := &activation.Source{Origin: origin, Offers: offers}
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func mustAcquire(t *testing.T, wants []activation.Want, sources ...*activation.Source) *activation.Result {
	t.Helper()
	return mustReload(t, wants, nil, sources...)
}

func mustReload(t *testing.T, wants []activation.Want, held []activation.Socket, sources ...*activation.Source) *activation.Result {
	t.Helper()
	r, err := activation.Acquire(wants, held, sources)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	return r
}

// sockets shows a listener's sockets as "origin address".
func sockets(l activation.Listener) []string {
	var list []string
	for _, s := range l.Sockets {
		list = append(list, string(s.Origin)+" "+s.Addr().String())
	}
	return list
}

func reasons(r *activation.Result) []string {
	var list []string
	for _, u := range r.Unwanted {
		list = append(list, u.Name+": "+u.Reason)
	}
	return list
}

func TestSocketsOfAListenersNameAllServeIt(t *testing.T) {
	dir := t.TempDir()
	v4, v6 := offer(t, "web", anyPort), offer(t, "web", tcp("[::1]:0"))
	file, abstract := offer(t, "web", sock.Unix(dir+"/s")), offer(t, "web", sock.Unix("@"+dir))
	want := []string{
		"systemd " + addr(t, v4).String(), "systemd " + addr(t, v6).String(),
		"systemd unix " + dir + "/s", "systemd unix @" + dir,
	}
	r := mustAcquire(t, []activation.Want{{Name: "web"}}, systemd(t, v4, v6, file, abstract))
	assert.Equal(t, want, sockets(r.Listeners[0]))
	assert.Empty(t, r.Unwanted)
}

func TestMissingAddressesAreBoundBesideInheritedSockets(t *testing.T) {
	dir := t.TempDir()
	configured, extra := offer(t, "web", anyPort), offer(t, "web", tcp("[::1]:0"))
	want := []string{
		"systemd " + addr(t, configured).String(), "systemd " + addr(t, extra).String(),
		"bind unix " + dir + "/s",
	}
	r := mustAcquire(t, []activation.Want{
		{Name: "web", Addrs: []sock.Addr{addr(t, configured), sock.Unix(dir + "/s")}},
	}, systemd(t, configured, extra))
	assert.Equal(t, want, sockets(r.Listeners[0]))
}

func TestDescriptorsWithoutAListenersNameGoByAddress(t *testing.T) {
	for _, name := range []string{"", "holdfast.socket", "unknown", "connection", "stored"} {
		a, b := offer(t, name, anyPort), offer(t, name, anyPort)
		wants := []activation.Want{
			{Name: "b", Addrs: []sock.Addr{addr(t, b)}},
			{Name: "a", Addrs: []sock.Addr{addr(t, a)}},
		}
		r := mustAcquire(t, wants, systemd(t, a, b))
		for i, l := range r.Listeners {
			assert.Equal(t, wants[i].Name, l.Name)
			assert.Equal(t, []string{"systemd " + wants[i].Addrs[0].String()}, sockets(l))
		}
	}
}

func TestWildcardSocketOfAUnitServesEachWayToWriteIt(t *testing.T) {
	unit := offer(t, "holdfast.socket", everybody) // ListenStream=PORT
	port := addr(t, unit).AddrPort.Port()
	source := systemd(t, unit)
	for _, host := range []netip.Addr{{}, netip.IPv6Unspecified(), netip.IPv4Unspecified()} {
		want := activation.Want{Name: "web", Addrs: []sock.Addr{sock.TCP(netip.AddrPortFrom(host, port))}}
		r, err := activation.Acquire([]activation.Want{want}, nil, []*activation.Source{source})
		require.NoError(t, err, "%v", host)
		require.Len(t, r.Listeners[0].Sockets, 1)
		assert.Equal(t, activation.Systemd, r.Listeners[0].Sockets[0].Origin)
		source.Offers = []activation.Offer{unit} // give it back for the next round
	}
}

func TestTheExactAddressIsPreferredToAWildcard(t *testing.T) {
	unit := offer(t, "", everybody)
	port := addr(t, unit).AddrPort.Port()
	r, err := activation.Acquire([]activation.Want{
		{Name: "four", Addrs: []sock.Addr{sock.TCP(netip.AddrPortFrom(netip.IPv4Unspecified(), port))}},
		{Name: "six", Addrs: []sock.Addr{addr(t, unit)}},
	}, nil, []*activation.Source{systemd(t, unit)})
	require.ErrorIs(t, err, unix.EADDRINUSE)
	assert.Nil(t, r)
	assert.ErrorContains(t, err, "listener four (tcp 0.0.0.0:")
}

func TestListenerThatTakesAnyGetsWhatIsLeft(t *testing.T) {
	dir := t.TempDir()
	named, left := offer(t, "web", anyPort), offer(t, "holdfast.socket", anyPort)
	datagram := offerSocket(t, "holdfast.socket", unix.SOCK_DGRAM, &unix.SockaddrUnix{Name: "@" + dir})
	want := "systemd " + addr(t, left).String()
	r := mustAcquire(t, []activation.Want{
		{Name: "default", TakesAny: true},
		{Name: "web"},
	}, systemd(t, named, left, datagram))
	assert.Equal(t, []string{want}, sockets(r.Listeners[0]))
	assert.Len(t, r.Listeners[1].Sockets, 1)
	assert.Equal(t, []string{"holdfast.socket: not a stream socket"}, reasons(r))
}

func TestForeignDescriptorsAreReportedAndStayOpen(t *testing.T) {
	dir := t.TempDir()
	var p [2]int
	require.NoError(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	netlink, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	closed := sock.NewFD(p[1])
	require.NoError(t, closed.Close())

	r := mustAcquire(t, []activation.Want{{Name: "web", Addrs: []sock.Addr{anyPort}}}, systemd(t,
		activation.Offer{Name: "web", FD: sock.NewFD(p[0])},
		activation.Offer{Name: "c", FD: sock.NewFD(pair[0])},
		activation.Offer{Name: "c", FD: sock.NewFD(pair[1])},
		activation.Offer{Name: "n", FD: sock.NewFD(netlink)},
		offerSocket(t, "web", unix.SOCK_STREAM, nil),
		offerSocket(t, "q", unix.SOCK_SEQPACKET, &unix.SockaddrUnix{Name: "@q" + dir}),
		offer(t, "other", sock.Unix("@"+dir)),
	))
	assert.Equal(t, []string{
		"web: not a socket but a pipe",
		"c: one connection and not a listening socket: the socket unit has Accept=yes",
		"c: one connection and not a listening socket: the socket unit has Accept=yes",
		"n: not a stream socket",
		"web: not listening",
		"q: not a stream socket",
		"other: no listener has this name or address",
	}, reasons(r))
	assert.Equal(t, "unix @"+dir, r.Unwanted[6].Info.String())
	for _, u := range r.Unwanted {
		_, err := unix.FcntlInt(uintptr(u.FD.Raw()), unix.F_GETFD, 0)
		assert.NoError(t, err, u.Reason)
	}
}

func TestSecondDescriptorOfASocketIsClosed(t *testing.T) {
	first := offer(t, "holdfast.socket", anyPort)
	second := dup(t, first, "holdfast.socket")
	a := addr(t, first)
	r := mustAcquire(t, []activation.Want{{Name: "web", Addrs: []sock.Addr{a}}}, systemd(t, first, second))
	assert.Len(t, r.Listeners[0].Sockets, 1)
	assert.Equal(t, []activation.Duplicate{{Name: "holdfast.socket", Origin: activation.Systemd, Addr: a}}, r.Duplicates)
	assert.Empty(t, r.Unwanted)
	assert.Equal(t, -1, second.FD.Raw())
}

func TestOfTwoDescriptorsOfASocketTheOneWithAListenersNameStays(t *testing.T) {
	first := offer(t, "holdfast.socket", anyPort)
	third := dup(t, first, "web")
	r := mustAcquire(t, []activation.Want{{Name: "web"}}, systemd(t, first, dup(t, first, ""), third, dup(t, first, "web")))
	require.Len(t, r.Listeners[0].Sockets, 1)
	assert.Same(t, third.FD, r.Listeners[0].Sockets[0].FD)
	assert.Len(t, r.Duplicates, 3)
}

func TestTwoSocketsAtOneAddressBothServe(t *testing.T) {
	first := offerReusePort(t, unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	a := addr(t, first)
	second := offerReusePort(t, unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(a.AddrPort.Port())})
	r := mustAcquire(t, []activation.Want{{Name: "web", Addrs: []sock.Addr{a}}}, systemd(t, first, second))
	assert.Equal(t, []string{"systemd " + a.String(), "systemd " + a.String()}, sockets(r.Listeners[0]))
	assert.Empty(t, r.Duplicates)
}

func offerReusePort(t *testing.T, sa unix.SockaddrInet4) activation.Offer {
	t.Helper()
	raw, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.SetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	require.NoError(t, unix.Bind(raw, &sa))
	require.NoError(t, unix.Listen(raw, 8))
	return activation.Offer{FD: sock.NewFD(raw)}
}

func TestTheFirstSourceWins(t *testing.T) {
	unit := offer(t, "web", anyPort)
	a := addr(t, unit)
	stored := &activation.Source{Origin: activation.Store, Offers: []activation.Offer{
		dup(t, unit, "socket/1"),
		offer(t, "socket/2", sock.Unix("@"+t.TempDir())),
	}}
	other := addr(t, stored.Offers[1])
	r := mustAcquire(t, []activation.Want{{Name: "web", Addrs: []sock.Addr{other, a}}}, systemd(t, unit), stored)
	assert.Equal(t, []string{"systemd " + a.String(), "store " + other.String()}, sockets(r.Listeners[0]))
	assert.Equal(t, activation.Store, r.Duplicates[0].Origin)
}

func TestInheritedSocketsAreReadyForAnEventLoop(t *testing.T) {
	unit := offer(t, "web", anyPort)
	require.NoError(t, unix.SetNonblock(unit.FD.Raw(), false))
	r := mustAcquire(t, []activation.Want{{Name: "web"}}, systemd(t, unit))
	_, _, err := unix.Accept(r.Listeners[0].Sockets[0].FD.Raw())
	assert.ErrorIs(t, err, unix.EAGAIN)
}

func TestClosingAResultLeavesTheUnitsPathAndRemovesOurOwn(t *testing.T) {
	dir := t.TempDir()
	units, ours := filepath.Join(dir, "unit"), filepath.Join(dir, "ours")
	r, err := activation.Acquire([]activation.Want{{Name: "web", Addrs: []sock.Addr{sock.Unix(ours)}}}, nil,
		[]*activation.Source{systemd(t, offer(t, "web", sock.Unix(units)))})
	require.NoError(t, err)
	require.FileExists(t, ours)

	require.NoError(t, r.Close())
	assert.NoFileExists(t, ours)
	assert.FileExists(t, units)
	require.NoError(t, r.Close(), "a second Close is nothing")
}

func TestNothingWantedIsNothingAcquired(t *testing.T) {
	r := mustAcquire(t, nil, systemd(t), systemd(t))
	assert.Empty(t, r.Listeners)
}
