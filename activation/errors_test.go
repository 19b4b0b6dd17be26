package activation_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func TestAllProblemsAreListedEachWithAHint(t *testing.T) {
	taken, err := sock.Listen(anyPort, sock.Options{})
	require.NoError(t, err)
	defer taken.Close()
	arrived := offer(t, "wep", sock.Unix("@"+t.TempDir()))
	source := systemd(t, arrived, offerSocket(t, "web", unix.SOCK_STREAM, nil))

	_, err = activation.Acquire([]activation.Want{
		{Name: "alt", Addrs: []sock.Addr{taken.Addr(), tcp("203.0.113.7:80")}},
		{Name: "fine", Addrs: []sock.Addr{anyPort}},
		{Name: "web"},
	}, nil, []*activation.Source{source})

	require.ErrorIs(t, err, unix.EADDRINUSE)
	require.ErrorIs(t, err, activation.ErrNoSocket)
	require.EqualError(t, err, "listener alt ("+taken.Addr().String()+"): address already in use\n"+
		"listener alt (tcp 203.0.113.7:80): cannot assign requested address\n"+
		"listener web: no address in the config and no socket unit passes a descriptor named web")

	var all activation.AcquireError
	require.ErrorAs(t, err, &all)
	require.Len(t, all, 3)
	assert.Equal(t, fmt.Sprintf("another program listens there: ss -ltnp sport = :%d", taken.Addr().AddrPort.Port()), all[0].Hint())
	assert.Equal(t, "no interface of this host has that address: ip address", all[1].Hint())
	assert.Equal(t, "set FileDescriptorName=web in the socket unit; what arrived: "+
		`"wep" (`+addr(t, arrived).String()+`), "web" (unix without a path, not listening)`, all[2].Hint())
}

func TestWhatCannotBeHadIsMissingAndTheRestIsThere(t *testing.T) {
	taken, err := sock.Listen(anyPort, sock.Options{})
	require.NoError(t, err)
	defer taken.Close()
	unit := offer(t, "unit", sock.Unix("@"+t.TempDir()))
	wants := []activation.Want{
		{Name: "whole", Addrs: []sock.Addr{anyPort}},
		{Name: "part", Addrs: []sock.Addr{taken.Addr(), anyPort}},
		{Name: "unit", Addrs: []sock.Addr{taken.Addr()}},
		{Name: "lost", Addrs: []sock.Addr{taken.Addr()}},
		{Name: "nowhere"},
	}
	r, missing := activation.AcquireRest(wants, nil, []*activation.Source{systemd(t, unit)})
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	var names []string
	for _, l := range r.Listeners {
		names = append(names, l.Name)
		assert.Len(t, l.Sockets, 1)
	}
	assert.Equal(t, []string{"whole", "part", "unit"}, names)
	var lost []string
	for _, m := range missing {
		lost = append(lost, m.Listener)
	}
	assert.Equal(t, []string{"part", "unit", "lost", "nowhere"}, lost)
}

func TestNoSocketAtAll(t *testing.T) {
	for _, tt := range []struct {
		want activation.Want
		text string
	}{
		{activation.Want{Name: "web"}, "listener web: no address in the config and no socket unit passes a descriptor named web"},
		{activation.Want{Name: "web", TakesAny: true}, "listener web: no address in the config and no socket unit passes a descriptor that listens"},
	} {
		_, err := activation.Acquire([]activation.Want{tt.want}, nil, nil)
		require.EqualError(t, err, tt.text)
		var le *activation.ListenerError
		require.ErrorAs(t, err, &le)
		assert.Equal(t, "no descriptor arrived: start the socket unit, or give the listener an address", le.Hint())
	}

	var p [2]int
	require.NoError(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
	source := systemd(t, activation.Offer{FD: sock.NewFD(p[0])}, activation.Offer{Name: "x", FD: sock.NewFD(p[1])})
	_, err := activation.Acquire([]activation.Want{{Name: "web", TakesAny: true}}, nil, []*activation.Source{source})
	var le *activation.ListenerError
	require.ErrorAs(t, err, &le)
	assert.Equal(t, `what arrived: without a name (not a socket but a pipe), "x" (not a socket but a pipe)`, le.Hint())
}

func TestTwoListenersAtOneAddressNameEachOther(t *testing.T) {
	dir := t.TempDir()
	free, err := sock.Listen(anyPort, sock.Options{})
	require.NoError(t, err)
	port := free.Addr().AddrPort.Port()
	require.NoError(t, free.Close())
	at := func(host string) sock.Addr { return sock.TCP(netip.AddrPortFrom(netip.MustParseAddr(host), port)) }
	every := sock.TCP(netip.AddrPortFrom(netip.Addr{}, port))

	for _, tt := range []struct {
		first, second sock.Addr
		has           string
	}{
		{at("127.0.0.1"), at("127.0.0.1"), at("127.0.0.1").String()},
		{every, at("127.0.0.1"), at("::").String()},
		{every, at("0.0.0.0"), at("::").String()},
		{at("127.0.0.1"), every, at("127.0.0.1").String()},
		{at("::1"), at("::"), at("::1").String()},
		{sock.Unix(dir + "/s"), sock.Unix(dir + "/s"), "unix " + dir + "/s"},
	} {
		_, err := activation.Acquire([]activation.Want{
			{Name: "one", Addrs: []sock.Addr{tt.first}}, {Name: "two", Addrs: []sock.Addr{tt.second}},
		}, nil, nil)
		require.ErrorIs(t, err, unix.EADDRINUSE)
		require.ErrorContains(t, err, "listener two ("+tt.second.String()+"): ")
		var le *activation.ListenerError
		require.ErrorAs(t, err, &le)
		assert.Equal(t, "listener one has "+tt.has+": two sockets cannot share an address", le.Hint())
	}
	// These do not: each has its own family.
	mustAcquire(t, []activation.Want{{Name: "both", Addrs: []sock.Addr{at("0.0.0.0"), at("::")}}})
}

func TestAfterAFailureNothingIsLostAndTheNextTrySucceeds(t *testing.T) {
	dir := t.TempDir()
	ours := filepath.Join(dir, "ours")
	taken, err := sock.Listen(anyPort, sock.Options{})
	require.NoError(t, err)
	defer taken.Close()
	unit, foreign := offer(t, "web", anyPort), offerSocket(t, "x", unix.SOCK_DGRAM, nil)
	source := systemd(t, unit, dup(t, unit, "web"), foreign)
	wants := []activation.Want{
		{Name: "web", Addrs: []sock.Addr{sock.Unix(ours)}},
		{Name: "alt", Addrs: []sock.Addr{taken.Addr()}},
	}

	_, err = activation.Acquire(wants, nil, []*activation.Source{source})
	require.Error(t, err)
	assert.NoFileExists(t, ours, "what was bound is closed again")
	require.Len(t, source.Offers, 3)
	for _, o := range source.Offers {
		assert.NotEqual(t, -1, o.FD.Raw(), "what was inherited is not closed")
	}

	require.NoError(t, taken.Close())
	r := mustAcquire(t, wants, source)
	assert.Len(t, r.Listeners[0].Sockets, 2)
	assert.Len(t, r.Unwanted, 1)
	assert.Empty(t, source.Offers)
}
