package activation_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func at(a string, v6only bool, change ...func(*sock.Info)) *sock.Listener {
	l := &sock.Listener{FD: &sock.FD{}, Info: sock.Info{Type: unix.SOCK_STREAM, Addr: tcp(a), V6Only: v6only}}
	for _, c := range change {
		c(&l.Info)
	}
	return l
}

func TestWhichAddressesASocketServes(t *testing.T) {
	every := sock.TCP(netip.AddrPortFrom(netip.Addr{}, 80))
	four, six, one := tcp("0.0.0.0:80"), tcp("[::]:80"), tcp("127.0.0.1:80")
	onDevice := func(i *sock.Info) { i.Device = "eth1" }
	elsewhere := func(i *sock.Info) { i.OtherNetNS = true }
	retired := func(i *sock.Info) { i.Retired = true }

	for _, tt := range []struct {
		symptom  string
		listener *sock.Listener
		unit     []sock.Addr // what it serves when it is a socket unit's
		own      []sock.Addr // and when it is our own
	}{
		{"IPv4 wildcard", at("0.0.0.0:80", false), []sock.Addr{four, every}, []sock.Addr{four}},
		{"IPv6 wildcard", at("[::]:80", true), []sock.Addr{six, every}, []sock.Addr{six}},
		{"wildcard of both", at("[::]:80", false), []sock.Addr{four, six, every}, []sock.Addr{every}},
		{"one address", at("127.0.0.1:80", false), []sock.Addr{one}, []sock.Addr{one}},
		{"on a device", at("127.0.0.1:80", false, onDevice), nil, nil},
		{"in another name space", at("127.0.0.1:80", false, elsewhere), nil, nil},
		{"retired", at("127.0.0.1:80", false, retired), []sock.Addr{one}, []sock.Addr{one}},
	} {
		t.Run(tt.symptom, func(t *testing.T) {
			for _, origin := range []activation.Origin{
				activation.Systemd, activation.Bind, activation.Store, activation.Handover, activation.Pidfd,
			} {
				served := tt.own
				if origin == activation.Systemd {
					served = tt.unit
				}
				for _, a := range []sock.Addr{four, six, one, every, sock.UDP(four.AddrPort), sock.UDP(one.AddrPort)} {
					got := activation.Match([]activation.Want{want("web", a)},
						[]activation.Socket{{Listener: tt.listener, Origin: origin}})
					assert.Equal(t, slices.Contains(served, a), len(got[0]) == 1, "%s serves %s", origin, a)
				}
			}
		})
	}
}

func TestWhoseNameCounts(t *testing.T) {
	for origin, counts := range map[activation.Origin]bool{
		activation.Systemd: true, activation.Handover: false,
		activation.Bind: false, activation.Store: false, activation.Pidfd: false,
	} {
		got := activation.Match([]activation.Want{{Name: "web"}}, []activation.Socket{
			{Listener: at("127.0.0.1:80", false), Origin: origin, Name: "web"},
		})
		assert.Equal(t, counts, len(got[0]) == 1, origin)
	}
}

func TestWhatAListenerThatTakesAnyTakes(t *testing.T) {
	for origin, takes := range map[activation.Origin]bool{
		activation.Systemd: true, activation.Handover: false,
		activation.Bind: false, activation.Store: false, activation.Pidfd: false,
	} {
		got := activation.Match([]activation.Want{{Name: "default", TakesAny: true}, want("web", tcp("127.0.0.1:81"))},
			[]activation.Socket{{Listener: at("127.0.0.1:80", false), Origin: origin}})
		assert.Equal(t, takes, len(got[0]) == 1, origin)
	}
}

// onDevice is a listening socket as BindToDevice= makes it.
func onDevice(t *testing.T, name string) activation.Offer {
	t.Helper()
	o := offer(t, name, tcp("0.0.0.0:0"))
	require.NoError(t, unix.SetsockoptString(o.FD.Raw(), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "lo"))
	return o
}

func TestASocketOfOneInterfaceGoesByNameOnly(t *testing.T) {
	unit := onDevice(t, "web")
	a := addr(t, unit)
	r := mustAcquire(t, []activation.Want{want("web", a)}, systemd(t, unit))
	assert.Equal(t, []string{"systemd " + a.String()}, sockets(r.Listeners[0]), "nothing is bound at an address that it has")
	assert.Equal(t, a.String()+"%lo", r.Listeners[0].Sockets[0].Info.String())

	unit = onDevice(t, "holdfast.socket")
	source := systemd(t, unit)
	_, err := activation.Acquire([]activation.Want{want("web", addr(t, unit))}, nil, []*activation.Source{source})
	require.ErrorIs(t, err, unix.EADDRINUSE)
	var le *activation.ListenerError
	require.ErrorAs(t, err, &le)
	assert.Contains(t, le.Hint(), "a socket unit has "+addr(t, unit).String()+"%lo, and no listener takes it")

	r = mustAcquire(t, []activation.Want{want("web", anyPort)}, source)
	assert.Equal(t, []string{"holdfast.socket: no listener has this name, and only some clients of its address arrive here"}, reasons(r))
}

func TestWhetherAnythingIsWanted(t *testing.T) {
	a, b := offer(t, "", anyPort), offer(t, "web", anyPort)
	units, own := systemd(t, b), from(t, activation.Handover, a)
	assert.False(t, activation.Wanted([]activation.Want{{Name: "other"}}, units, own))
	assert.True(t, activation.Wanted([]activation.Want{{Name: "web"}}, units, own))
	assert.True(t, activation.Wanted([]activation.Want{{Name: "other", Addrs: []sock.Addr{addr(t, a)}}}, units, own))
	assert.Len(t, units.Offers, 1)
}
