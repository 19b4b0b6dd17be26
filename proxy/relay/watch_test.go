package relay

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// As when there is no memory for a watch of epoll.
func TestASocketThatCannotBeWatchedIsTriedAgain(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{}, b.address)
	fd, address := listenRaw(t, "tcp", 16)
	defer unix.Close(fd)
	aside, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 500)
	require.NoError(t, err)
	defer unix.Close(aside)
	s := NewSocket(fd, 2, "unlucky", r.service)
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0) // it cannot be watched
	require.NoError(t, err)
	defer unix.Close(null)
	require.NoError(t, unix.Dup3(null, fd, unix.O_CLOEXEC))
	r.relay.Serve(s)
	r.eachLoop(func(*loop) {})
	require.NoError(t, unix.Dup3(aside, fd, unix.O_CLOEXEC))
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	require.NoError(t, ping(t, c))
	<-r.relay.Release(s, false)
}

// What a received socket has for those that it accepts.
func TestOptionsOfAReceivedSocketAreNotHandedDown(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{}, b.address)
	fd, address := listenRaw(t, "tcp", 16)
	defer unix.Close(fd)
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, 1000))
	require.NoError(t, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, 1))
	early, err := net.Dial("tcp", address)
	require.NoError(t, err)
	s := NewSocket(fd, 2, "odd", r.service)
	r.relay.Serve(s)
	late, err := net.Dial("tcp", address)
	require.NoError(t, err)
	for _, c := range []net.Conn{early, late} {
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		require.NoError(t, ping(t, c))
	}
	r.eachPair(func(p *pair) {
		corked, err := unix.GetsockoptInt(int(p.side[client].fd), unix.IPPROTO_TCP, unix.TCP_CORK)
		require.NoError(t, err)
		require.Zero(t, corked)
	})
	<-r.relay.Release(s, false)
}

// As when a security module forbids it: that is no shortage, and may never be over.
func TestAQueueThatNobodyCanBeAcceptedFromIsNotWaitedFor(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{loops: 1}, b.address)
	fd, address := listenRaw(t, "tcp", 16)
	defer unix.Close(fd)
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer c.Close()
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0) // readable, for poll(2)
	require.NoError(t, err)
	defer unix.Close(null)
	released := make(chan struct{})
	r.eachLoop(func(l *loop) {
		l.drainQueue(NewSocket(fd, 2, "denied", r.service), released)
		assert.Equal(t, 1, l.draining[0].queued)
		assert.NoError(t, unix.Dup3(null, fd, unix.O_CLOEXEC))
	})
	select {
	case <-released:
	case <-time.After(patience):
		require.Fail(t, "it is waited for")
	}
}
