package sock_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

func reusePort(t *testing.T, l *sock.Listener) bool {
	t.Helper()
	on, err := unix.GetsockoptInt(l.FD.Raw(), unix.SOL_SOCKET, unix.SO_REUSEPORT)
	require.NoError(t, err)
	return on != 0
}

func beside(old ...*sock.Listener) sock.Options {
	return sock.Options{Beside: old}
}

// gets tells which of two listeners a client of host gets to: "old", "new", or "".
func gets(t *testing.T, host string, old, fresh *sock.Listener) string {
	t.Helper()
	if !dials(fresh, host) {
		return ""
	}
	if acceptOne(t, fresh) != "" {
		return "new"
	}
	require.NotEmpty(t, acceptOne(t, old))
	return "old"
}

func TestAnOverlappingAddressIsBoundBesideAnOldSocket(t *testing.T) {
	for _, tt := range []struct {
		from, to     string // "" = every address
		lo4, lo6     string // who gets clients of 127.0.0.1 and ::1 while both listen
		now4, now6   string // and when the old one is retired
		queuedClient string
	}{
		{"0.0.0.0", "127.0.0.1", "new", "", "new", "", "127.0.0.1"},
		{"127.0.0.1", "0.0.0.0", "old", "", "new", "", "127.0.0.1"},
		{"", "0.0.0.0", "new", "old", "new", "", "127.0.0.1"},
		{"0.0.0.0", "", "old", "new", "new", "new", "127.0.0.1"},
		{"", "::", "old", "old", "", "new", "127.0.0.1"},
		{"::", "", "new", "old", "new", "new", "::1"},
		{"", "127.0.0.1", "new", "old", "new", "", "::1"},
		{"::1", "", "new", "old", "new", "new", "::1"},
	} {
		t.Run(fmt.Sprintf("from %q to %q", tt.from, tt.to), func(t *testing.T) {
			from, _ := netip.ParseAddr(tt.from)
			to, _ := netip.ParseAddr(tt.to)
			old := mustListen(t, sock.TCP(netip.AddrPortFrom(from, 0)), sock.Options{})
			waiting := queue(t, "tcp", net.JoinHostPort(tt.queuedClient, portOf(old)))
			addr := sock.TCP(netip.AddrPortFrom(to, old.Addr().AddrPort.Port()))
			_, err := sock.Listen(addr, sock.Options{})
			require.ErrorIs(t, err, unix.EADDRINUSE)

			fresh := mustListen(t, addr, beside(old))
			assert.Contains(t, fresh.Info.ListenAddrs(), addr)
			assert.False(t, reusePort(t, old))
			assert.False(t, reusePort(t, fresh))
			assert.Equal(t, waiting.LocalAddr().String(), acceptOne(t, old), "who waits stays")
			assert.Equal(t, tt.lo4, gets(t, "127.0.0.1", old, fresh))
			assert.Equal(t, tt.lo6, gets(t, "::1", old, fresh))
			for _, a := range []sock.Addr{old.Info.ListenAddrs()[0], addr} {
				_, err = sock.Listen(a, sock.Options{})
				require.ErrorIs(t, err, unix.EADDRINUSE, "others are refused as before")
			}

			require.NoError(t, old.Retire())
			assert.Equal(t, tt.now4, gets(t, "127.0.0.1", old, fresh))
			assert.Equal(t, tt.now6, gets(t, "::1", old, fresh))
			require.NoError(t, old.Close())
			assert.Equal(t, tt.now4, gets(t, "127.0.0.1", old, fresh))
			assert.Equal(t, tt.now6, gets(t, "::1", old, fresh))
		})
	}
}

func TestTheSameAddressIsBoundBesideARetiredSocket(t *testing.T) {
	old := mustListen(t, tcp("127.0.0.1:0"), sock.Options{})
	require.NoError(t, old.Retire())
	fresh := mustListen(t, old.Addr(), beside(old))
	assert.Equal(t, "new", gets(t, "127.0.0.1", old, fresh))
}

func TestBesideSeveralOldSocketsOfWhichSomeAreInTheWay(t *testing.T) {
	four := mustListen(t, tcp("0.0.0.0:0"), sock.Options{})
	six := mustListen(t, sock.TCP(netip.AddrPortFrom(netip.IPv6Unspecified(), four.Addr().AddrPort.Port())), sock.Options{})
	far := mustListen(t, tcp("127.0.0.1:0"), sock.Options{})
	shared := mustListen(t, udp("127.0.0.1:0"), sock.Options{})
	fresh := mustListen(t, everyAddress(four.Addr().AddrPort.Port()), beside(far, four, shared, six))
	for _, l := range []*sock.Listener{four, six, far, shared, fresh} {
		assert.False(t, reusePort(t, l))
	}
}

func TestUDPBesideAnOldSocket(t *testing.T) {
	old := mustListen(t, udp("0.0.0.0:0"), sock.Options{})
	addr := udp("127.0.0.1:" + portOf(old))
	_, err := sock.Listen(addr, sock.Options{})
	require.ErrorIs(t, err, unix.EADDRINUSE)
	fresh := mustListen(t, addr, beside(old))
	assert.True(t, hears(t, fresh, addr.AddrPort.String()))
	assert.True(t, hears(t, old, "127.0.0.2:"+portOf(old)))
	_, err = sock.Listen(addr, sock.Options{})
	assert.ErrorIs(t, err, unix.EADDRINUSE)
}

func TestAnOptionThatAnOldSocketHadStays(t *testing.T) {
	old := mustListen(t, tcp("0.0.0.0:0"), sock.Options{})
	require.NoError(t, unix.SetsockoptInt(old.FD.Raw(), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	mustListen(t, tcp("127.0.0.1:"+portOf(old)), beside(old))
	assert.True(t, reusePort(t, old))
}

func TestAnotherProgramInTheWayIsInTheWayStill(t *testing.T) {
	old := mustListen(t, tcp("127.0.0.1:0"), sock.Options{})
	mustListen(t, tcp("127.0.0.2:"+portOf(old)), sock.Options{}) // not among those that go
	_, err := sock.Listen(tcp("0.0.0.0:"+portOf(old)), beside(old))
	require.ErrorIs(t, err, unix.EADDRINUSE)
	assert.False(t, reusePort(t, old))
	assert.True(t, dials(old, "127.0.0.1"))
}

func init() {
	children["listen"] = func() int {
		_, err := sock.Listen(tcp(os.Args[1]), sock.Options{})
		fmt.Print(err)
		return 0
	}
}

func TestAnotherProcessIsRefusedAfterwards(t *testing.T) {
	old := mustListen(t, tcp("0.0.0.0:0"), sock.Options{})
	fresh := mustListen(t, tcp("127.0.0.1:"+portOf(old)), beside(old))
	for _, a := range []sock.Addr{old.Addr(), fresh.Addr()} {
		assert.Equal(t, "listen on "+a.String()+": address already in use", child(t, "listen", a.AddrPort.String()))
	}
	require.NoError(t, old.Close())
	assert.Equal(t, "listen on "+fresh.Addr().String()+": address already in use", child(t, "listen", fresh.Addr().AddrPort.String()))
}

// A busy port whose address is widened and narrowed. Without Retire some clients
// are reset between the last accept and close.
func TestNoClientIsRefusedOrResetWhileTheAddressChanges(t *testing.T) {
	current := mustListen(t, tcp("127.0.0.1:0"), sock.Options{})
	address := current.Addr().AddrPort.String()
	port := current.Addr().AddrPort.Port()
	done, errs := make(chan struct{}), make(chan error)
	const clients = 4
	for range clients {
		go func() { errs <- hammer(address, done) }()
	}
	hosts := []netip.Addr{netip.IPv4Unspecified(), netip.MustParseAddr("127.0.0.1"), {}}
	for i := range 100 {
		for range clients {
			serveQueue(t, current)
		}
		fresh := mustListen(t, sock.TCP(netip.AddrPortFrom(hosts[i%len(hosts)], port)), beside(current))
		require.NoError(t, current.Retire())
		for range 50 { // a moment for handshakes that have begun
			serveQueue(t, fresh)
			serveQueue(t, current)
		}
		require.NoError(t, current.Close())
		current = fresh
	}
	close(done)
	for left := clients; left > 0; {
		select {
		case err := <-errs:
			assert.NoError(t, err)
			left--
		default:
			serveQueue(t, current)
		}
	}
}

// hammer connects and waits for the end of the stream, over and over.
func hammer(address string, done chan struct{}) error {
	for {
		select {
		case <-done:
			return nil
		default:
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		_, err = c.Read(make([]byte, 1))
		_ = c.Close()
		if !errors.Is(err, io.EOF) {
			return fmt.Errorf("read: %w", err)
		}
	}
}

// serveQueue accepts until the queue is empty.
func serveQueue(t *testing.T, l *sock.Listener) {
	t.Helper()
	for acceptOne(t, l) != "" {
	}
}
