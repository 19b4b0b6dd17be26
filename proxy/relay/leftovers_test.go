package relay

import (
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// What a process leaves that is killed between two instructions, made by hand.

// onlySlot is the slot of the only connection of a shelf, its number and its descriptors.
func (s *shelf) onlySlot() (*slot, uint32, [2]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(s.t, s.kept, 1)
	for number, fds := range s.kept {
		return slotIn(s.at(number)), number, fds
	}
	return nil, 0, [2]int32{}
}

// letGo ends the keeping of a rig's connections, so that the shelf can be changed.
func (r *rig) letGo() {
	r.t.Helper()
	<-r.relay.Release(r.socket, false)
	r.relay.LetGo()
}

// awaitPhase returns when there is a pair in a phase.
func (r *rig) awaitPhase(of phase, what string) {
	r.t.Helper()
	eventually(r.t, what, func() bool {
		is := false
		r.eachPair(func(p *pair) { is = is || p.phase == of })
		return is
	})
}

// silentClient is one that no server is found for.
func silentClient(t *testing.T, s *shelf) *rig {
	t.Helper()
	r := newRig(t, setup{vault: s, pool: func(u *config.Upstream) { u.ConnectRetry = patience }}, deadAddress(t))
	r.dial()
	r.awaitPhase(waiting, "a client waits for a server")
	return r
}

func TestAClientThatIsFoundTwiceIsDialledForOnce(t *testing.T) {
	s := newShelf(t, 10)
	r := silentClient(t, s)
	r.letGo()
	former, _, fds := s.onlySlot()
	number, memory, ok := s.Take()
	require.True(t, ok)
	*slotIn(memory) = *former
	require.True(t, s.Keep(number, fds[client], fds[server]))
	assert.Equal(t, Restored{Connections: 1}, r.successor(s))
	s.onlySlot()
}

func TestAClientThatWasKeptBeforeItHadItsOptionsHasThem(t *testing.T) {
	s := newShelf(t, 10)
	r := silentClient(t, s)
	r.letGo()
	_, _, fds := s.onlySlot()
	setInt(fds[client], unix.SOL_SOCKET, unix.SO_OOBINLINE, 0)
	require.Equal(t, Restored{Connections: 1}, r.successor(s))
	inline, err := unix.GetsockoptInt(int(fds[client]), unix.SOL_SOCKET, unix.SO_OOBINLINE)
	require.NoError(t, err)
	assert.Equal(t, 1, inline)
}

func TestAPROXYHeaderThatWasNotedAndNotTakenIsReadAnew(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 10)
	r := newRig(t, setup{vault: s, service: func(s *Service) { s.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }}, b.address)
	c := r.dial()
	text := "PROXY TCP4 192.0.2.7 192.0.2.1 4711 80\r\n"
	_, err := io.WriteString(c, text[:9])
	require.NoError(t, err)
	r.awaitPhase(header, "the header is waited for")
	r.letGo()
	left, _, _ := s.onlySlot()
	left.peer.set(netip.MustParseAddrPort("203.0.113.1:1"))
	atomic.StoreInt64(&left.flow[client].before, int64(len(text)))
	require.Equal(t, Restored{Connections: 1}, r.successor(s))
	_, err = io.WriteString(c, text[9:]+"hi")
	require.NoError(t, err)
	got := make([]byte, 2)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	assert.Equal(t, "hi", string(got))
	closeWrite(t, c)
	assert.Equal(t, netip.MustParseAddrPort("192.0.2.7:4711"), r.end().Client)
}

// Its generation may be over, and its networks not known any more.
func TestAPROXYHeaderIsWaitedForWhoeverIsTrustedNow(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	s := newShelf(t, 10)
	r := newRig(t, setup{vault: s, service: func(s *Service) { s.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }}, b.address)
	c := r.dial()
	r.awaitPhase(header, "the header is waited for")
	r.service = r.other(2, func(s *Service) { s.Trusted = nil })
	require.Equal(t, Restored{Connections: 1}, r.successor(s))
	_, err := io.WriteString(c, "PROXY TCP4 192.0.2.7 192.0.2.1 4711 80\r\nhi")
	require.NoError(t, err)
	got := make([]byte, 2)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	assert.Equal(t, "hi", string(got))
	closeWrite(t, c)
	assert.Equal(t, netip.MustParseAddrPort("192.0.2.7:4711"), r.end().Client)
}

func TestAConnectionWhoseSlotIsGarbledIsReset(t *testing.T) {
	for name, garble := range map[string]func(*slot){
		"by flags that nobody sets": func(s *slot) { s.flags = 1<<30 | flagBroken<<client },
		"by a state of no meaning":  func(s *slot) { s.state = 77 },
		"by that of a pipe":         func(s *slot) { s.state = slotPipe },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, "tcp", echo)
			s := newShelf(t, 10)
			r := newRig(t, setup{vault: s}, b.address)
			c := r.dial()
			require.NoError(t, ping(t, c))
			r.letGo()
			left, _, _ := s.onlySlot()
			garble(left)
			require.Equal(t, Restored{Lost: 1}, r.successor(s))
			_, err := c.Read(make([]byte, 1))
			assert.ErrorIs(t, err, unix.ECONNRESET)
			assert.Equal(t, NotRestored, r.end().Reason)
		})
	}
}

func TestWhatWasOnItsWayFromABufferIntoAPipeArrives(t *testing.T) {
	for _, taken := range []string{"", "AB", "ABC"} {
		t.Run("the pipe has taken "+strconv.Quote(taken), func(t *testing.T) { killedWhilePouring(t, taken) })
	}
}

func killedWhilePouring(t *testing.T, taken string) {
	t.Helper()
	received := make(chan string, 1)
	b := newBackend(t, "unix", func(c net.Conn) {
		all, _ := io.ReadAll(c)
		received <- string(all)
	})
	s := newShelf(t, 10)
	r := newRig(t, setup{vault: s}, b.address)
	c := r.dial()
	_, err := io.WriteString(c, "abc")
	require.NoError(t, err)
	eventually(t, "it is passed on", func() bool {
		var moved int64
		r.eachPair(func(p *pair) { moved = p.flow[client].moved })
		return moved == 3
	})
	r.letGo()
	var left *slot
	for number := range s.kept {
		if one := slotIn(s.at(number)); one.state == slotPipe {
			s.Drop(number)
		} else {
			left = one
		}
	}
	slab, number, err := s.Slab()
	require.NoError(t, err)
	copy(slab[3*bufferSize:], "ABC") // as if these had been read, and not the others written
	atomic.StoreInt64(&left.flow[client].start, 0)
	atomic.StoreInt64(&left.flow[client].told, 1)
	atomic.StoreUint32(&left.flow[client].buffer, number*slabBuffers+3)
	pipes := pipePool{vault: s, most: 1, ceiling: func() int { return 1 << 20 }}
	pipe := pipes.get()
	require.GreaterOrEqual(t, pipe.fd, int32(0))
	_, err = unix.Write(int(pipe.fd), []byte(taken))
	require.NoError(t, err)
	closeFD(pipe.fd)
	atomic.StoreUint32(&left.flow[client].pipe, pipe.slot+1)
	require.Equal(t, Restored{Connections: 1}, r.successor(s))
	closeWrite(t, c)
	assert.Equal(t, "abcABC", <-received)
}

// A process that was killed for its memory would be killed again by copies of it.
func TestWhatIsOwedStaysWhereItIs(t *testing.T) {
	const streams = mostPipes + 100
	b := newBackend(t, "tcp", flood)
	s := newShelf(t, 1000)
	r := newRig(t, setup{vault: s}, b.address)
	for range streams {
		_, err := r.dial().Write([]byte("go"))
		require.NoError(t, err)
	}
	r.awaitStall()
	type place struct {
		moved int64
		buf   int32
	}
	owed := func() map[uint32]place {
		all := map[uint32]place{}
		r.eachPair(func(p *pair) {
			if f := &p.flow[server]; f.off < f.end {
				all[p.number] = place{f.moved, f.buf}
			}
		})
		return all
	}
	before := owed()
	for range 20 {
		require.Equal(t, Restored{Connections: streams}, r.successor(s))
	}
	same := 0
	for number, now := range owed() {
		if now.moved == before[number].moved { // or its client has taken some after all
			assert.Equal(t, before[number].buf, now.buf)
			same++
		}
	}
	assert.Greater(t, same, 20, "of %d", len(before))
}

func TestABufferIsGivenToOneConnection(t *testing.T) {
	b := newBackend(t, "tcp", flood)
	s := newShelf(t, 10)
	r := newRig(t, setup{vault: s, loops: 1}, b.address)
	r.eachLoop(func(l *loop) { l.shared.pipes[wide].most = 0 })
	for range 2 {
		_, err := r.dial().Write([]byte("go"))
		require.NoError(t, err)
	}
	r.awaitStall()
	r.letGo()
	var buffers []*uint32
	for number := range s.kept {
		buffers = append(buffers, &slotIn(s.at(number)).flow[server].buffer)
	}
	require.Len(t, buffers, 2)
	*buffers[0] = *buffers[1] // as if something had written there
	assert.Equal(t, Restored{Connections: 1, Lost: 1}, r.successor(s))
}

func TestAPipeIsForgottenBeforeAnotherConnectionGetsIt(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{vault: newShelf(t, 10), loops: 1}, b.address)
	c := r.dial()
	require.NoError(t, ping(t, c))
	r.eachLoop(func(l *loop) {
		l.pairs.each(func(p *pair) {
			f := &p.flow[client]
			l.takePipe(p, f)
			assert.NotZero(t, p.kept.flow[client].pipe)
			l.discardOwed(p, f)
			assert.Zero(t, p.kept.flow[client].pipe)
		})
	})
}

func TestAResetIsOneAlsoWhenALookHasEatenItsError(t *testing.T) {
	fd, address := listenRaw(t, "tcp", 1)
	defer unix.Close(fd)
	for _, tt := range []struct {
		name string
		end  func(net.Conn)
		want bool
	}{
		{"reset", abort, true},
		{"end", func(c net.Conn) { _ = c.Close() }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := net.Dial("tcp", address)
			require.NoError(t, err)
			require.True(t, anyoneWaits(int32(fd)))
			var from unix.RawSockaddrAny
			accepted, errno := accept(int32(fd), &from)
			require.Zero(t, errno)
			defer closeFD(accepted)
			tt.end(c)
			s := side{fd: accepted, tcp: true}
			eventually(t, "it is there", func() bool {
				_, errno := recv(accepted, make([]byte, 1), unix.MSG_PEEK)
				return errno != unix.EAGAIN
			})
			s.noteReset()
			assert.Equal(t, tt.want, s.broken)
		})
	}
}
