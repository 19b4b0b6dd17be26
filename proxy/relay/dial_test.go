package relay

import (
	"io"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/proxyproto"
)

// deadAddress is a loopback port where nothing listens.
func deadAddress(t *testing.T) config.Address {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return addressOf(l.Addr())
}

// blackhole is a server whose backlog is full: a SYN to it is never answered.
func blackhole(t *testing.T) config.Address {
	t.Helper()
	fd, address := listenRaw(t, "tcp", 0)
	t.Cleanup(func() { _ = unix.Close(fd) })
	for range 3 {
		c, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err != nil {
			break
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	ap := netip.MustParseAddrPort(address)
	return config.Address{Network: "tcp", Host: ap.Addr().String(), Port: ap.Port()}
}

func ping(t *testing.T, c net.Conn) error {
	t.Helper()
	if _, err := c.Write([]byte("ping")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 4))
	return err
}

func TestNextServerIsTriedWhenOneDoesNotAnswer(t *testing.T) {
	unixGone := config.Address{Network: "unix", Path: t.TempDir() + "/nobody"}
	for name, first := range map[string]config.Address{"refused": deadAddress(t), "no such path": unixGone, "silent": blackhole(t)} {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(name+" then "+network, func(t *testing.T) {
				b := newBackend(t, network, echo)
				r := newRig(t, setup{pool: func(u *config.Upstream) { u.ConnectTimeout = 300 * time.Millisecond }}, first, b.address)
				for range 4 {
					require.NoError(t, ping(t, r.dial()))
				}
			})
		}
	}
}

func TestClientWaitsForABackendThatIsStarting(t *testing.T) {
	address := deadAddress(t)
	r := newRig(t, setup{pool: func(u *config.Upstream) { u.ConnectRetry = patience }}, address)
	c := r.dial()
	_, err := c.Write([]byte("ping"))
	require.NoError(t, err)
	eventually(t, "some rounds have failed", func() bool {
		rounds := 0
		r.eachPair(func(p *pair) { rounds = int(p.rounds) })
		return rounds >= 2
	})

	l, err := net.Listen("tcp", net.JoinHostPort(address.Host, strconv.Itoa(int(address.Port))))
	require.NoError(t, err)
	defer l.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		if s, err := l.Accept(); err == nil {
			_, _ = io.CopyN(s, s, 4)
			_ = s.Close()
		}
	}()
	_, err = io.ReadFull(c, make([]byte, 4))
	require.NoError(t, err)
	<-served
}

func TestClientIsResetWhenNoServerCanBeReached(t *testing.T) {
	r := newRig(t, setup{}, deadAddress(t), deadAddress(t))
	c, err := net.Dial("tcp", r.address) // may see the reset already
	if err == nil {
		_, err = io.ReadAll(c)
		_ = c.Close()
	}
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	end := r.end()
	assert.Equal(t, NoServer, end.Reason)
	assert.EqualValues(t, 1, r.relay.Stats().Failed)
}

func TestRelayIsNotItsOwnServer(t *testing.T) {
	// A connect to a port of the ephemeral range where nobody listens may choose
	// that very port as its own, and then the socket is connected to itself.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	sa := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	require.NoError(t, unix.Bind(fd, sa))
	bound, err := unix.Getsockname(fd)
	require.NoError(t, err)
	require.NoError(t, unix.Connect(fd, bound))
	var raw [unix.SizeofSockaddrInet4]byte
	raw[0] = unix.AF_INET
	in := bound.(*unix.SockaddrInet4)
	raw[2], raw[3] = byte(in.Port>>8), byte(in.Port)
	copy(raw[4:], in.Addr[:])
	r := &Relay{ephemeral: 1}
	assert.True(t, r.selfConnected(int32(fd), raw[:]))

	b := newBackend(t, "tcp", echo)
	other, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(other)
	require.NoError(t, unix.Connect(other, &unix.SockaddrInet4{Port: int(b.address.Port), Addr: [4]byte{127, 0, 0, 1}}))
	assert.False(t, r.selfConnected(int32(other), raw[:]))
}

func TestClientThatLeavesWhileItWaitsIsForgotten(t *testing.T) {
	r := newRig(t, setup{pool: func(u *config.Upstream) { u.ConnectRetry = time.Hour }}, deadAddress(t))
	c := r.dial()
	eventually(t, "the client waits", func() bool { return r.relay.Stats().Active == 1 })
	abort(c)
	assert.Equal(t, ClientLeft, r.end().Reason)
}

func TestFullBacklogOfAUnixServerIsWaitedFor(t *testing.T) {
	fd, path := listenRaw(t, "unix", 0)
	t.Cleanup(func() { _ = unix.Close(fd) })
	r := newRig(t, setup{pool: func(u *config.Upstream) { u.ConnectRetry = patience }}, config.Address{Network: "unix", Path: path})
	for range 5 {
		c := r.dial()
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
	}
	got := 0
	eventually(t, "all five arrive", func() bool {
		if s, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC); err == nil {
			_ = unix.Close(s)
			got++
		}
		return got == 5
	})
}

func TestProxyHeaderTellsTheServerWhoTheClientIs(t *testing.T) {
	for version := 1; version <= 2; version++ {
		headers := make(chan proxyproto.Header, 1)
		b := newBackend(t, "tcp", func(c net.Conn) {
			buf := make([]byte, 4096)
			for n := 0; ; {
				k, err := c.Read(buf[n:])
				if err != nil {
					return
				}
				n += k
				h, size, err := proxyproto.Parse(buf[:n])
				if err != nil {
					continue
				}
				headers <- h
				_, _ = c.Write(buf[size:n])
				echo(c)
				return
			}
		})
		r := newRig(t, setup{service: func(s *Service) { s.SendProxy = version }}, b.address)
		c := r.dial()
		require.NoError(t, ping(t, c))
		h := <-headers
		assert.Equal(t, version, h.Version)
		assert.Equal(t, c.LocalAddr().String(), h.Source.String())
		assert.Equal(t, r.address, h.Destination.String())
	}
}

func TestProxyHeaderOfATrustedClientIsBelieved(t *testing.T) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	source, destination := netip.MustParseAddrPort("192.0.2.7:4711"), netip.MustParseAddrPort("192.0.2.1:443")
	b := newBackend(t, "tcp", echo)
	trusting := setup{service: func(s *Service) { s.Trusted = loopback }}
	for version := 1; version <= 2; version++ {
		r := newRig(t, trusting, b.address)
		c := r.dial()
		for _, octet := range proxyproto.Append(nil, version, source, destination) {
			_, err := c.Write([]byte{octet}) // in single bytes
			require.NoError(t, err)
		}
		require.NoError(t, ping(t, c))
		_ = c.Close()
		end := r.end()
		assert.Equal(t, source, end.Client)
		assert.EqualValues(t, 4, end.BytesIn, "the header is not the client's data")
	}

	t.Run("with data behind it", func(t *testing.T) {
		r := newRig(t, trusting, b.address)
		c := r.dial()
		_, err := c.Write(append(proxyproto.Append(nil, 2, source, destination), "hello"...))
		require.NoError(t, err)
		closeWrite(t, c)
		got, err := io.ReadAll(c)
		require.NoError(t, err)
		assert.Equal(t, "hello", string(got))
	})
	t.Run("garbage is reset", func(t *testing.T) {
		r := newRig(t, trusting, b.address)
		c := r.dial()
		_, err := c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		require.NoError(t, err)
		_, err = io.ReadAll(c)
		assert.ErrorIs(t, err, syscall.ECONNRESET)
		assert.Equal(t, BadHeader, r.end().Reason)
	})
	t.Run("an unfinished one is reset", func(t *testing.T) {
		r := newRig(t, trusting, b.address)
		c := r.dial()
		_, err := c.Write([]byte("PROXY TCP4"))
		require.NoError(t, err)
		closeWrite(t, c)
		_, err = io.ReadAll(c)
		assert.ErrorIs(t, err, syscall.ECONNRESET)
	})
	t.Run("of others it is data", func(t *testing.T) {
		r := newRig(t, setup{service: func(s *Service) { s.Trusted = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }}, b.address)
		c := r.dial()
		sent := proxyproto.Append(nil, 1, source, destination)
		_, err := c.Write(sent)
		require.NoError(t, err)
		closeWrite(t, c)
		got, err := io.ReadAll(c)
		require.NoError(t, err)
		assert.Equal(t, sent, got)
	})
}
