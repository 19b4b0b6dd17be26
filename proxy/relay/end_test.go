package relay

import (
	"bytes"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// onSocket runs fn on the descriptor of a connection.
func onSocket(t *testing.T, c net.Conn, fn func(fd int)) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { fn(int(fd)) }))
}

// arrived waits until the peer's kernel has everything that c sent.
func arrived(t *testing.T, c net.Conn) {
	t.Helper()
	eventually(t, "all has arrived", func() bool {
		left := 0
		onSocket(t, c, func(fd int) { left = unacknowledged(int32(fd)) })
		return left == 0
	})
}

func TestWhatABrokenServerHadSentArrives(t *testing.T) {
	const size = 300_000
	b := newBackend(t, "tcp", func(c net.Conn) {
		_, _ = c.Write(bytes.Repeat([]byte("x"), size))
		arrived(t, c)
		abort(c)
	})
	r := newRig(t, setup{}, b.address)
	c := r.dial()
	onSocket(t, c, func(fd int) { _ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 16<<10) })
	got, err := io.ReadAll(c)
	assert.Len(t, got, size)
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	assert.Equal(t, ServerReset, r.end().Reason)
}

func TestFinishedAnswerIsAnEndAlthoughTheServerResetsLater(t *testing.T) {
	// The server has said all it had to say; that it refuses what the client sends
	// after that is no reason to call its answer broken.
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			answered, sent := make(chan struct{}), make(chan struct{})
			b := newBackend(t, network, func(c net.Conn) {
				_, _ = c.Write([]byte("answer"))
				_ = c.Close() // of all of it: what comes is answered by RST or EPIPE
				close(answered)
				<-sent
			})
			r := newRig(t, setup{}, b.address)
			c := r.dial()
			<-answered
			got := make([]byte, 6)
			_, err := io.ReadFull(c, got)
			require.NoError(t, err)
			n, err := c.Read(make([]byte, 1))
			assert.Zero(t, n)
			assert.ErrorIs(t, err, io.EOF)
			_, err = c.Write([]byte("more"))
			require.NoError(t, err)
			close(sent)
			r.end()
		})
	}
}

func TestServerThatReadsNoMoreMayGoOnSending(t *testing.T) {
	shut, goOn := make(chan struct{}), make(chan struct{})
	b := newBackend(t, "unix", func(c net.Conn) {
		_ = c.(*net.UnixConn).CloseRead()
		close(shut)
		<-goOn
		_, _ = c.Write([]byte("late answer"))
	})
	r := newRig(t, setup{}, b.address)
	c := r.dial()
	<-shut
	_, err := c.Write([]byte("nobody reads this"))
	require.NoError(t, err)
	eventually(t, "the relay knows", func() bool {
		broken := false
		r.eachPair(func(p *pair) { broken = p.side[server].broken })
		return broken
	})
	r.eachLoop(func(l *loop) { // long after
		l.pairs.each(func(p *pair) {
			p.deadline, p.active = 1, 1
			l.checkDelivery(p)
		})
	})
	close(goOn)
	got, _ := io.ReadAll(c)
	assert.Equal(t, "late answer", string(got))
}

func TestDeliveryOfTheLastBytesMayTakeLongWhileItProgresses(t *testing.T) {
	for name, p := range map[string]*pair{
		"all is sent":                  {phase: flushing},
		"the relay owes it some still": {phase: open, flow: [2]flow{server: {state: cut}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &loop{relay: &Relay{}, now: int64(time.Hour)}
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			defer unix.Close(fds[0])
			defer unix.Close(fds[1])
			_, err = unix.Write(fds[0], []byte("not read yet"))
			require.NoError(t, err)
			phase := p.phase
			p.deadline, p.active, p.unsent = 1, 1, 1<<20
			p.side[server].broken = true
			p.side[client] = side{fd: int32(fds[0])}
			l.checkDelivery(p)
			assert.Equal(t, phase, p.phase)
			assert.Equal(t, l.now, p.active, "less than before is left")
		})
	}
}

func TestClientThatLeavesDuringDeliveryIsForgotten(t *testing.T) {
	b := newBackend(t, "tcp", func(c net.Conn) {
		_, _ = c.Write(make([]byte, 3<<20))
		abort(c)
	})
	r := newRig(t, setup{}, b.address)
	c := r.dial() // never reads
	eventually(t, "the last bytes wait for it", func() bool {
		waits := false
		r.eachPair(func(p *pair) { waits = p.phase == flushing || p.side[server].broken })
		return waits
	})
	abort(c)
	r.end()
}

func TestHangUpNeverMakesAPartLookWhole(t *testing.T) {
	request := []byte("request")
	for name, prepare := range map[string]func(*testing.T) (*rig, net.Conn){
		"a client that waits for a server": func(t *testing.T) (*rig, net.Conn) {
			r := newRig(t, setup{pool: func(u *config.Upstream) { u.ConnectRetry = time.Hour }}, deadAddress(t))
			return r, r.dial()
		},
		"a half-closed client that waits for its answer": func(t *testing.T) (*rig, net.Conn) {
			stop := make(chan struct{})
			b := newBackend(t, "tcp", func(c net.Conn) {
				_, _ = io.Copy(io.Discard, c)
				<-stop
			})
			t.Cleanup(func() { close(stop) })
			r := newRig(t, setup{}, b.address)
			c := r.dial()
			_, err := c.Write(request)
			require.NoError(t, err)
			closeWrite(t, c)
			eventually(t, "the request is through", func() bool {
				through := false
				r.eachPair(func(p *pair) { through = p.flow[client].state == done })
				return through
			})
			return r, c
		},
		"a stream that runs": func(t *testing.T) (*rig, net.Conn) {
			b := newBackend(t, "tcp", func(c net.Conn) {
				for {
					if _, err := c.Write([]byte(strings.Repeat("x", 100))); err != nil {
						return
					}
				}
			})
			r := newRig(t, setup{}, b.address)
			c := r.dial()
			_, err := io.ReadFull(c, make([]byte, 1000))
			require.NoError(t, err)
			return r, c
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, c := prepare(t)
			eventually(t, "it is there", func() bool { return r.relay.Stats().Active == 1 })
			r.relay.HangUp(Selection{})
			_, err := io.Copy(io.Discard, c)
			assert.ErrorIs(t, err, syscall.ECONNRESET)
		})
	}
}

func TestCopyOfAnEndedDescriptorIsNotReported(t *testing.T) {
	// Another holder of the socket must not keep it in epoll.
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{loops: 1}, b.address)
	c := r.dial()
	require.NoError(t, ping(t, c))
	copies := []int{}
	r.eachPair(func(p *pair) {
		for _, s := range p.side {
			fd, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 0)
			assert.NoError(t, err)
			copies = append(copies, fd)
		}
	})
	require.NoError(t, c.Close())
	r.end()
	r.eachLoop(func(l *loop) {
		for _, fd := range copies {
			err := epollCtl(l.epfd, unix.EPOLL_CTL_DEL, int32(fd), nil)
			assert.Equal(t, unix.ENOENT, err, "still registered")
			assert.NoError(t, unix.Close(fd))
		}
	})
}

func TestResetOfAUnixSideReachesItsPeerAlthoughACopyIsHeld(t *testing.T) {
	b := newBackend(t, "tcp", func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 4))
		abort(c)
	})
	r := newRig(t, setup{network: "unix"}, b.address)
	c := r.dial()
	var held int
	eventually(t, "a copy is held", func() bool {
		ok := false
		r.eachPair(func(p *pair) {
			if p.phase == open {
				held, _ = unix.FcntlInt(uintptr(p.side[client].fd), unix.F_DUPFD_CLOEXEC, 0)
				ok = true
			}
		})
		return ok
	})
	defer unix.Close(held)
	_, err := c.Write([]byte("ping"))
	require.NoError(t, err)
	_, err = io.ReadAll(c) // the end, or a reset if something was unread
	assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the peer saw nothing")
	assert.Equal(t, ServerReset, r.end().Reason)
}

func TestResetOfAUnixSideThatReadsNoMoreReachesItAlthoughACopyIsHeld(t *testing.T) {
	shut, left := make(chan struct{}), make(chan struct{})
	b := newBackend(t, "tcp", func(c net.Conn) {
		<-shut
		_, _ = c.Write([]byte("nobody reads this"))
		<-left
		abort(c)
	})
	r := newRig(t, setup{network: "unix"}, b.address)
	c := r.dial()
	require.NoError(t, c.(*net.UnixConn).CloseRead())
	close(shut)
	eventually(t, "the relay knows", func() bool {
		broken := false
		r.eachPair(func(p *pair) { broken = p.phase == open && p.side[client].broken })
		return broken
	})
	var held int
	r.eachPair(func(p *pair) {
		var err error
		held, err = unix.FcntlInt(uintptr(p.side[client].fd), unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
	})
	defer unix.Close(held)
	close(left)
	r.end()
	_, err := c.Write([]byte("more"))
	assert.ErrorIs(t, err, syscall.EPIPE)
}

func TestUploadOfAClientThatResetsArrivesAlthoughTheServerHasEnded(t *testing.T) {
	// Both have sent FIN by then, which epoll calls a hang-up; bytes still wait.
	const size = 200_000
	ended, left, got := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	b := newBackend(t, "tcp", func(c net.Conn) {
		onSocket(t, c, func(fd int) { _ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10) })
		_ = c.(*net.TCPConn).CloseWrite()
		close(ended)
		<-left
		n, _ := io.Copy(io.Discard, c)
		got <- int(n)
	})
	r := newRig(t, setup{}, b.address)
	c := r.dial()
	<-ended
	_, err := c.Write(make([]byte, size))
	require.NoError(t, err)
	eventually(t, "the relay has taken it", func() bool { return r.relay.Stats().BytesIn == size })
	closeWrite(t, c)
	eventually(t, "its end is passed on", func() bool {
		over := true
		r.eachPair(func(p *pair) { over = p.flow[client].state == done && p.flow[server].state == done })
		return over
	})
	abort(c)
	close(left)
	assert.Equal(t, size, <-got)
}

func TestListeningSocketThatWasShutDownDoesNotSpin(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{network: "unix", loops: 1}, b.address)
	require.NoError(t, ping(t, r.dial()))
	require.NoError(t, unix.Shutdown(r.fd, unix.SHUT_RDWR))
	eventually(t, "accepting pauses", r.socket.Paused)
	select {
	case <-r.relay.Release(r.socket, true):
	case <-time.After(patience):
		require.Fail(t, "its queue is waited for")
	}
}
