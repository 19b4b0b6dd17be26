package pidfd_test

import (
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func init() {
	// So many connections, and a listening socket before each thousandth.
	children["has connections"] = func(args []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		var at []netip.AddrPort
		var newest *sock.Listener
		for i := range n / 2 {
			if i%500 == 0 {
				if newest, err = sock.Listen(tcp("127.0.0.1:0"), sock.Options{}); err != nil {
					return err
				}
				if err := unix.SetNonblock(newest.FD.Raw(), false); err != nil {
					return err
				}
				at = append(at, newest.Addr().AddrPort)
			}
			if err := connectTo(newest); err != nil {
				return err
			}
		}
		if err := say(at); err != nil {
			return err
		}
		waitToBeTold()
		return nil
	}
	children["opens and closes"] = func([]string) error {
		at, err := listenTimes(5)
		if err != nil {
			return err
		}
		if err := say(at); err != nil {
			return err
		}
		return openAndClose()
	}
}

// connectTo opens both ends of a connection.
func connectTo(l *sock.Listener) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(l.Addr().AddrPort.Port())}
	if err := unix.Connect(fd, to); err != nil {
		return err
	}
	_, _, err = unix.Accept(l.FD.Raw())
	return err
}

// openAndClose has another set of sockets and pipes open all the time.
func openAndClose() error {
	var slots [200]*sock.FD
	for {
		slot := &slots[rand.IntN(len(slots))]
		if *slot != nil {
			if err := (*slot).Close(); err != nil {
				return err
			}
			*slot = nil
			continue
		}
		var raw int
		var err error
		switch rand.IntN(4) {
		case 0:
			var l *sock.Listener
			if l, err = sock.Listen(tcp("127.0.0.1:0"), sock.Options{}); err == nil {
				*slot = l.FD
				continue
			}
		case 1:
			raw, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		case 2:
			raw, err = unix.Eventfd(0, 0)
		case 3:
			raw, err = unix.Open("/dev/null", unix.O_RDONLY, 0)
		}
		if err != nil {
			return err
		}
		*slot = sock.NewFD(raw)
	}
}

func addrPorts(found []opened) []string {
	var all []string
	for _, f := range found {
		all = append(all, f.Addr)
	}
	return all
}

func TestManyConnectionsTakeFewDescriptorsHere(t *testing.T) {
	c := start(t, command("has connections", "5000"))
	var at []netip.AddrPort
	c.hears(t, &at)
	var want []string
	for _, ap := range at {
		want = append(want, sock.TCP(ap).String())
	}
	p := open(t, c.Process.Pid)

	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	few := unix.Rlimit{Cur: uint64(len(descriptors(t)) + len(at) + 10), Max: limit.Max}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()

	began := time.Now()
	found := take(t, p)
	t.Logf("%d sockets among 5,000 connections in %v", len(found), time.Since(began))
	assert.Equal(t, want, addrPorts(shown(found)))
}

func TestRunningOutOfDescriptorsTakesNothing(t *testing.T) {
	c := start(t, command("listens often"))
	var at []netip.AddrPort
	c.hears(t, &at)
	p := open(t, c.Process.Pid)

	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	before := descriptors(t)
	few := unix.Rlimit{Cur: uint64(len(before) + len(at)/2), Max: limit.Max}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	found, err := p.ListeningSockets(t.Context())
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	assert.Empty(t, found)
	require.ErrorIs(t, err, unix.EMFILE)
	assert.Len(t, descriptors(t), len(before))
}

func TestWhatIsOpenAllTheTimeIsFoundWhileOthersComeAndGo(t *testing.T) {
	c := start(t, command("opens and closes"))
	var at []netip.AddrPort
	c.hears(t, &at)
	p := open(t, c.Process.Pid)
	for range 50 {
		found, err := p.ListeningSockets(t.Context())
		require.NoError(t, err)
		got := addrPorts(shown(found))
		for _, ap := range at {
			assert.Contains(t, got, sock.TCP(ap).String())
		}
		for _, f := range found {
			assert.True(t, f.Info.Listening, "%s", f.Info)
			require.NoError(t, f.FD.Close())
		}
	}
}
