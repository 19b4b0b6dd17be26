package relay

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnswerAfterHalfCloseArrivesWhole(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair[0]+" to "+pair[1], func(t *testing.T) {
			answer := bytes.Repeat([]byte("answer "), 200_000)
			b := newBackend(t, pair[1], func(c net.Conn) {
				if _, err := io.Copy(io.Discard, c); err == nil { // to the end of the request
					_, _ = c.Write(answer)
				}
			})
			r := newRig(t, setup{network: pair[0]}, b.address)
			c := r.dial()
			_, err := c.Write([]byte("question"))
			require.NoError(t, err)
			closeWrite(t, c)
			got, err := io.ReadAll(c)
			require.NoError(t, err)
			assert.Equal(t, sha256.Sum256(answer), sha256.Sum256(got))
			require.NoError(t, c.Close())
			end := r.end()
			assert.Equal(t, Closed, end.Reason)
			assert.EqualValues(t, len("question"), end.BytesIn)
			assert.EqualValues(t, len(answer), end.BytesOut)
		})
	}
}

func TestBothWaysAtOnceByteForByte(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair[0]+" to "+pair[1], func(t *testing.T) {
			b := newBackend(t, pair[1], echo)
			r := newRig(t, setup{network: pair[0]}, b.address)
			var all sync.WaitGroup
			for i := range 8 {
				c := r.dial()
				all.Go(func() { exchange(t, c, 3<<20, uint64(i)) })
			}
			all.Wait()
		})
	}
}

// exchange writes size random bytes in random pieces, and expects them back.
func exchange(t *testing.T, c net.Conn, size int, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	go func() {
		for rest := data; len(rest) > 0; {
			n := min(1+rnd.IntN(1+rnd.IntN(300_000)), len(rest))
			if _, err := c.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
		_ = c.(interface{ CloseWrite() error }).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	assert.NoError(t, err)
	assert.Equal(t, sha256.Sum256(data), sha256.Sum256(got))
}

func TestResetOfTheServerIsAResetForTheClient(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"before the whole request": func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, 1))
			abort(c)
		},
		"after part of an answer": func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, 1))
			_, _ = c.Write(make([]byte, 100_000))
			abort(c)
		},
		"in the middle of a large request": func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, 50_000))
			abort(c)
		},
		"after its own FIN": func(c net.Conn) {
			_, _ = c.Write([]byte("bye"))
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.ReadFull(c, make([]byte, 200_000))
			abort(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, "tcp", serve)
			r := newRig(t, setup{}, b.address)
			for range 50 {
				c := r.dial()
				err := writeUntilError(c)
				assert.Truef(t, isReset(err), "client saw %v", err)
				_ = c.Close()
			}
			eventually(t, "no connection left", func() bool { return r.relay.Stats().Active == 0 })
		})
	}
}

// writeUntilError keeps both directions busy until the connection is broken.
func writeUntilError(c net.Conn) error {
	writes := make(chan error, 1)
	go func() {
		for {
			if _, err := c.Write(make([]byte, 20_000)); err != nil {
				writes <- err
				return
			}
		}
	}()
	_, err := io.Copy(io.Discard, c)
	return errors.Join(err, <-writes)
}

func isReset(err error) bool {
	return err != nil && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE))
}

func TestTruncatedAnswerNeverLooksWhole(t *testing.T) {
	// The client only reads: what it sees at the end must be the reset, whether
	// the relay meets it in a read or in a write.
	request := make([]byte, 16<<20)
	for _, busy := range []bool{false, true} {
		b := newBackend(t, "tcp", func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, 10))
			_, _ = c.Write(make([]byte, rand.IntN(300_000)))
			abort(c)
		})
		r := newRig(t, setup{}, b.address)
		for range 60 {
			c := r.dial()
			_, err := c.Write(make([]byte, 10))
			require.NoError(t, err)
			wrote := make(chan error, 1)
			if busy { // its own write may meet the reset first, and eats it
				go func() {
					_, err := c.Write(request)
					wrote <- err
				}()
			} else {
				wrote <- nil
			}
			_, err = io.Copy(io.Discard, c)
			err = errors.Join(err, <-wrote)
			assert.ErrorIsf(t, err, syscall.ECONNRESET, "busy %v", busy)
			_ = c.Close()
		}
	}
}

func TestResetOfTheClientIsAResetForTheServer(t *testing.T) {
	saw := make(chan error, 1)
	b := newBackend(t, "tcp", func(c net.Conn) {
		_, _ = c.Write([]byte("x"))
		_, err := io.Copy(io.Discard, c)
		saw <- err
	})
	r := newRig(t, setup{}, b.address)
	for _, size := range []int{1, 1000, 100_000, 1_000_000} {
		for range 25 {
			c := r.dial()
			_, err := io.ReadFull(c, make([]byte, 1)) // it is through
			require.NoError(t, err)
			_, err = c.Write(make([]byte, size))
			require.NoError(t, err)
			abort(c)
			select {
			case err := <-saw:
				assert.ErrorIsf(t, err, syscall.ECONNRESET, "after %d bytes", size)
			case <-time.After(patience):
				require.Fail(t, "the server saw no end")
			}
			assert.Equal(t, ClientReset, r.end().Reason)
		}
	}
}

func TestPeerThatNeverReadsHoldsBoundedMemory(t *testing.T) {
	b := newBackend(t, "tcp", flood)
	r := newRig(t, setup{loops: 1}, b.address)
	for range 20 {
		c := r.dial()
		_, err := c.Write([]byte("go"))
		require.NoError(t, err)
	}
	r.awaitStall()
	held := 0
	r.eachLoop(func(l *loop) {
		held += len(l.own.buffers.slabs)*slabBuffers - len(l.own.buffers.free) + l.own.pipes[wide].made
	})
	assert.LessOrEqual(t, held, 40, "at most one buffer or pipe each way")

	quick := r.dial() // others go on
	_, err := quick.Write([]byte("go"))
	require.NoError(t, err)
	_, err = io.ReadFull(quick, make([]byte, 1<<20))
	require.NoError(t, err)
}

func TestShortLivesInParallelLeaveNothingBehind(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{}, b.address)
	const clients, lives = 16, 100
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for j := range lives {
				c, err := net.Dial("tcp", r.address)
				if !assert.NoError(t, err) {
					return
				}
				_ = c.SetDeadline(time.Now().Add(patience))
				switch j % 3 {
				case 0:
					exchange(t, c, 1+j, uint64(i*j))
				case 1:
					_, _ = c.Write([]byte("x"))
					abort(c)
				default: // says nothing
				}
				_ = c.Close()
			}
		})
	}
	all.Wait()
	eventually(t, "no connection left", func() bool { return r.relay.Stats().Active == 0 })
	s := r.relay.Stats()
	assert.EqualValues(t, clients*lives, s.Accepted)
	assert.Zero(t, s.Failed)
	assert.Zero(t, r.socket.Active())
	assert.Zero(t, r.service.Limit.active.Load())
	assert.EqualValues(t, clients*lives, r.socket.Accepted())
}

func TestUrgentDataIsNotLost(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{}, b.address)
	c := r.dial().(*net.TCPConn)
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	var want []byte
	for i := range 50 {
		plain := bytes.Repeat([]byte{byte(i)}, 100+i)
		_, err := c.Write(plain)
		require.NoError(t, err)
		require.NoError(t, raw.Write(func(fd uintptr) bool {
			return syscall.Sendto(int(fd), []byte("U"), syscall.MSG_OOB, nil) == nil
		}))
		want = append(append(want, plain...), 'U')
	}
	closeWrite(t, c)
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestRelayingDoesNotAllocate(t *testing.T) {
	b := newBackend(t, "tcp", echo)
	r := newRig(t, setup{loops: 1}, b.address)
	c := r.dial()
	message := make([]byte, 100)
	round := func(n int) {
		for range n {
			_, err := c.Write(message)
			require.NoError(t, err)
			_, err = io.ReadFull(c, message)
			require.NoError(t, err)
		}
	}
	round(100)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	round(2000)
	runtime.ReadMemStats(&after)
	assert.Less(t, after.Mallocs-before.Mallocs, uint64(1000), "over 2000 requests, the test's own included")
}
