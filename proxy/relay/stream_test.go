package relay

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestUrgentDataInABulkTransferDoesNotStopIt(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{}, b.address)
	for range 20 {
		c := r.dial().(*net.TCPConn)
		bulk := bytes.Repeat([]byte("b"), 200_000)
		want := append(append(bytes.Clone(bulk), 'U'), "tail"...)
		received := make(chan []byte, 1)
		go func() {
			got := make([]byte, len(want))
			n, _ := io.ReadFull(c, got)
			received <- got[:n]
		}()
		_, err := c.Write(bulk)
		require.NoError(t, err)
		onSocket(t, c, func(fd int) { err = syscall.Sendto(fd, []byte("U"), syscall.MSG_OOB, nil) })
		require.NoError(t, err)
		_, err = c.Write([]byte("tail"))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, <-received), "all of it, without an end") // the stream stays open
		_ = c.Close()
	}
}

func TestUrgentDataJustBeforeTheEndIsNotTheEnd(t *testing.T) {
	for _, to := range []string{"tcp", "unix"} {
		b := newBackend(t, to, echo)
		r := newRig(t, setup{vault: newShelf(t, 100)}, b.address)
		for range 20 {
			c := r.dial().(*net.TCPConn)
			bulk := bytes.Repeat([]byte("b"), 200_000)
			received := make(chan int, 1)
			go func() {
				n, _ := io.Copy(io.Discard, struct{ io.Reader }{c})
				received <- int(n)
			}()
			_, err := c.Write(bulk)
			require.NoError(t, err)
			onSocket(t, c, func(fd int) { err = syscall.Sendto(fd, []byte("U"), syscall.MSG_OOB, nil) })
			require.NoError(t, err)
			closeWrite(t, c)
			assert.Equal(t, len(bulk)+1, <-received)
			_ = c.Close()
		}
	}
}

func TestUrgentDataComesInLineFromAListenerForMultipathTCP(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	if err != nil {
		t.Skip("no Multipath TCP here: ", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(fd, 16))
	bound, err := unix.Getsockname(fd)
	require.NoError(t, err)
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{}, b.address)
	s := NewSocket(fd, 2, "multipath", r.service)
	r.relay.Serve(s)
	defer func() { <-r.relay.Release(s, false) }()
	for range 3 { // the queue was empty when the later ones came
		c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: bound.(*unix.SockaddrInet4).Port})
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		require.NoError(t, ping(t, c))
		onSocket(t, c, func(fd int) { err = syscall.Sendto(fd, []byte("U"), syscall.MSG_OOB, nil) })
		require.NoError(t, err)
		_, err = io.WriteString(c, "tail")
		require.NoError(t, err)
		got := make([]byte, 5)
		_, err = io.ReadFull(c, got)
		require.NoError(t, err)
		assert.Equal(t, "Utail", string(got))
	}
}

func TestDescriptorsAttachedByAUnixPeerDoNotStopTheStream(t *testing.T) {
	b := newBackend(t, "unix", echo)
	r := newRig(t, setup{network: "unix"}, b.address)
	c := r.dial()
	stdin, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(stdin)
	onSocket(t, c, func(fd int) {
		for range 3 { // together in the queue; a read stops behind each
			err := unix.Sendmsg(fd, []byte("abc"), unix.UnixRights(stdin), nil, 0)
			assert.NoError(t, err)
		}
	})
	got := make([]byte, 9)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	assert.Equal(t, "abcabcabc", string(got))
}

func TestClientsOfBeforeTheOptionsHaveThemToo(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	fd, address := listenRaw(t, "tcp", 16)
	t.Cleanup(func() { _ = unix.Close(fd) })
	early, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer early.Close()
	r := newRig(t, setup{}, b.address)
	s := NewSocket(fd, 2, "early", r.service)
	r.relay.Serve(s)
	late, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer late.Close()
	require.NoError(t, ping(t, early))
	require.NoError(t, ping(t, late))
	sides := 0
	r.eachPair(func(p *pair) {
		for _, side := range p.side {
			sides++
			for name, at := range map[string][2]int{
				"no delay": {unix.IPPROTO_TCP, unix.TCP_NODELAY}, "keepalive": {unix.SOL_SOCKET, unix.SO_KEEPALIVE},
				"urgent data in line": {unix.SOL_SOCKET, unix.SO_OOBINLINE},
			} {
				v, err := unix.GetsockoptInt(int(side.fd), at[0], at[1])
				assert.NoError(t, err)
				assert.Equal(t, 1, v, name)
			}
		}
	})
	assert.Equal(t, 4, sides)
	<-r.relay.Release(s, false)
}

// The loops come to the end of the queue at the same time.
func TestUrgentDataOfManyWhoCameBeforeTheOptionsComesInLine(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{loops: 4}, b.address)
	for round := range uint64(20) {
		fd, address := listenRaw(t, "tcp", 64)
		t.Cleanup(func() { _ = unix.Close(fd) })
		clients := make([]net.Conn, 50)
		for i := range clients {
			c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)))
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
			onSocket(t, c, func(fd int) { err = syscall.Sendto(fd, []byte("U"), syscall.MSG_OOB, nil) })
			require.NoError(t, err)
			_, err = io.WriteString(c, "tail")
			require.NoError(t, err)
			clients[i] = c
		}
		s := NewSocket(fd, round+2, "early", r.service)
		s.prepared = time.Now().Add(-time.Hour)
		r.relay.Serve(s)
		for _, c := range clients {
			got := make([]byte, 5)
			_, err := io.ReadFull(c, got)
			require.NoError(t, err)
			assert.Equal(t, "Utail", string(got))
		}
		eventually(t, "none of them is in the queue", func() bool { return s.early.Load() == 0 })
		<-r.relay.Release(s, false)
	}
}

// Its queue is never empty.
func TestASocketThatIsAlwaysAtItsLimitHandsDownItsOptions(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{}, b.address)
	fd, address := listenRaw(t, "tcp", 64)
	t.Cleanup(func() { _ = unix.Close(fd) })
	var clients []net.Conn
	connect := func() {
		for range 5 {
			c, err := net.Dial("tcp", address)
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
			clients = append(clients, c)
		}
	}
	connect()
	s := NewSocket(fd, 2, "busy", r.other(2, func(s *Service) { s.Limit = NewLimit(1) }))
	s.prepared = time.Now().Add(-time.Hour)
	r.relay.Serve(s)
	for i := range 7 {
		require.NoError(t, ping(t, clients[i]))
		if i == 0 {
			connect() // these have inherited them
		}
		r.eachPair(func(p *pair) {
			inline, err := unix.GetsockoptInt(int(p.side[client].fd), unix.SOL_SOCKET, unix.SO_OOBINLINE)
			assert.NoError(t, err)
			assert.Equal(t, 1, inline)
		})
		assert.Equal(t, max(0, 4-i), int(s.early.Load()), "with the last of the first five")
		assert.True(t, anyoneWaits(int32(fd)))
		require.NoError(t, clients[i].Close())
	}
	<-r.relay.Release(s, false)
}

// While urgent data does not come in line the second byte of it drops the first, if nobody
// has read that.
func TestAClientWhoseUrgentDataIsLostIsReset(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{}, b.address)
	fd, address := listenRaw(t, "tcp", 16)
	t.Cleanup(func() { _ = unix.Close(fd) })
	clients := map[string]net.Conn{"ABC": nil, "AB": nil} // what they send, with two urgent bytes and one
	for text := range clients {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		for _, urgent := range []string{"A", "B"}[:len(text)-1] {
			onSocket(t, c, func(fd int) { err = syscall.Sendto(fd, []byte(urgent), syscall.MSG_OOB, nil) })
			require.NoError(t, err)
		}
		_, err = io.WriteString(c, text[len(text)-1:])
		require.NoError(t, err)
		onSocket(t, c, func(fd int) {
			eventually(t, "all of it has come", func() bool { return unacknowledged(int32(fd)) == 0 })
		})
		clients[text] = c
	}
	s := NewSocket(fd, 2, "early", r.service)
	r.relay.Serve(s)
	_, err := clients["ABC"].Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	assert.Equal(t, UrgentLost, r.end().Reason)
	got := make([]byte, 2)
	_, err = io.ReadFull(clients["AB"], got)
	require.NoError(t, err)
	assert.Equal(t, "AB", string(got))
	<-r.relay.Release(s, false)
}

func TestAClientThatIsResetBeforeTheOptionsHasNotEnded(t *testing.T) {
	heard := make(chan error, 1)
	b := newBackend(t, "tcp", func(c net.Conn) {
		_, err := c.Read(make([]byte, 1))
		heard <- err
	})
	r := newRig(t, setup{}, b.address)
	fd, address := listenRaw(t, "tcp", 16)
	t.Cleanup(func() { _ = unix.Close(fd) })
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	abort(c)
	s := NewSocket(fd, 2, "early", r.service)
	r.relay.Serve(s)
	assert.Contains(t, []Reason{ClientLeft, ClientReset}, r.end().Reason)
	select {
	case err := <-heard:
		require.ErrorIs(t, err, syscall.ECONNRESET)
	default: // it was not dialled
	}
	<-r.relay.Release(s, false)
}

// The reset is found in the midst of a turn, and the server does not read.
func TestAResetBehindUrgentDataIsNotWaitedForForEver(t *testing.T) {
	b := newBackend(t, "tcp", func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 2))
		_, _ = c.Write([]byte("x"))
		time.Sleep(200 * time.Millisecond)
	})
	r := newRig(t, setup{loops: 1}, b.address)
	c := r.dial()
	_, err := io.WriteString(c, "hi")
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	require.NoError(t, err)
	timed, broken := false, false
	pump := func(l *loop, p *pair) {
		setInt(p.side[server].fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 8<<10)
		onSocket(t, c, func(fd int) {
			assert.NoError(t, syscall.Sendto(fd, make([]byte, 16<<10), 0, nil))
			assert.NoError(t, syscall.Sendto(fd, []byte("U"), syscall.MSG_OOB, nil))
			assert.NoError(t, syscall.Sendto(fd, make([]byte, 32<<10), 0, nil))
			assert.Eventually(t, func() bool { return unacknowledged(int32(fd)) == 0 }, patience, time.Millisecond)
		})
		abort(c)
		assert.Eventually(t, func() bool { return tcpClosed(p.side[client].fd) }, patience, time.Millisecond)
		p.side[client].readable, p.flow[client].full = true, bulkAfter
		l.pump(p, client)
		timed, broken = p.timed, p.side[client].broken
	}
	r.eachLoop(func(l *loop) { l.pairs.each(func(p *pair) { pump(l, p) }) })
	assert.True(t, broken)
	assert.True(t, timed)
}

// A splice that has stopped at urgent data gives the error of a reset before what is left.
func TestUrgentDataBeforeAResetInABulkTransferArrives(t *testing.T) {
	for _, to := range []string{"tcp", "unix"} {
		t.Run(to, func(t *testing.T) {
			for range 5 {
				urgentBeforeReset(t, to)
			}
		})
	}
}

func urgentBeforeReset(t *testing.T, to string) {
	t.Helper()
	reset, got := make(chan struct{}), make(chan int, 1)
	b := newBackend(t, to, func(c net.Conn) {
		n := 0
		for some := make([]byte, 64<<10); ; {
			m, err := c.Read(some)
			n += m
			if err != nil {
				break
			}
			select {
			case <-reset:
			case <-time.After(2 * time.Millisecond): // so that much waits at the relay
			}
		}
		got <- n
	})
	r := newRig(t, setup{loops: 1}, b.address)
	c := r.dial()
	bulk := make([]byte, 12<<20)
	_, err := c.Write(bulk)
	require.NoError(t, err)
	onSocket(t, c, func(fd int) {
		eventually(t, "there is room", func() bool { return syscall.Sendto(fd, []byte("U"), syscall.MSG_OOB, nil) == nil })
	})
	_, err = io.WriteString(c, "tail")
	require.NoError(t, err)
	onSocket(t, c, func(fd int) {
		eventually(t, "all of it has come", func() bool { return unacknowledged(int32(fd)) == 0 })
	})
	abort(c)
	time.Sleep(50 * time.Millisecond) // the relay is told while it has not read all
	close(reset)
	assert.Equal(t, len(bulk)+len("Utail"), <-got)
}

func TestBurstsLeaveNeitherPipesNorMemory(t *testing.T) {
	b := newBackend(t, "tcp", func(c net.Conn) {
		for {
			if _, err := c.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	r := newRig(t, setup{loops: 1}, b.address)
	var conns []net.Conn
	for range 40 {
		c := r.dial()
		_, err := io.ReadFull(c, make([]byte, 1<<20))
		require.NoError(t, err)
		conns = append(conns, c)
	}
	pipes := 0
	r.eachLoop(func(l *loop) { pipes = l.own.pipes[wide].made })
	assert.Greater(t, pipes, keptPipes)
	for _, c := range conns {
		_ = c.Close()
	}
	eventually(t, "pipes are closed", func() bool {
		r.eachLoop(func(l *loop) { pipes = l.own.pipes[wide].made })
		return pipes <= keptPipes
	})
}

func TestOneBusyConnectionDoesNotStarveTheOthersOfItsLoop(t *testing.T) {
	b := newBackend(t, "tcp", func(c net.Conn) {
		kind := make([]byte, 1)
		_, _ = io.ReadFull(c, kind)
		for kind[0] == 's' {
			if _, err := c.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
		_, _ = c.Write(kind)
		_, _ = io.Copy(struct{ io.Writer }{c}, c)
	})
	r := newRig(t, setup{loops: 1}, b.address)
	for range 4 {
		c := r.dial()
		_, err := c.Write([]byte("s"))
		require.NoError(t, err)
		go func() { _, _ = io.Copy(io.Discard, struct{ io.Reader }{c}) }()
	}
	c := r.dial()
	_, err := c.Write([]byte("e"))
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	require.NoError(t, err)
	for range 100 {
		require.NoError(t, ping(t, c))
	}
}
