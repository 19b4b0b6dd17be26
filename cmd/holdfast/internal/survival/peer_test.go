package survival

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds the life of a connection.
const patience = 3 * time.Minute

// outcome is what one end has seen.
type outcome struct {
	received, sent int64
	end            error // why reading ended; io.EOF = the stream did
	refusal        error // why writing ended before all was sent; nil = it did not
	wrong          error // what came was not what was sent
	life           int   // of the child, when it was over
}

// peer is one end at work.
type peer struct {
	script  *script
	conn    net.Conn
	out, in uint64 // keys of the streams
	resets  bool

	mu       sync.Mutex
	changed  *sync.Cond
	received int64
	ended    bool // nothing comes any more
	result   outcome
}

// play does what the plan says of one end, and closes the connection.
func (p *plan) play(end int, c net.Conn) outcome {
	e := &peer{script: &p.ends[end], conn: c, out: p.key(end), in: p.key(1 - end), resets: p.resets == end}
	e.changed = sync.NewCond(&e.mu)
	var reading sync.WaitGroup
	reading.Go(e.read)
	e.write()
	if e.resets {
		e.reset()
	} else if e.result.refusal == nil && !e.script.holds {
		_ = c.(interface{ CloseWrite() error }).CloseWrite() // fails where a reset has come, which reading tells
	}
	reading.Wait()
	_ = c.Close()
	return e.result
}

// read reads to the end, and compares.
func (e *peer) read() {
	if e.script.reads != nil {
		<-e.script.reads
	}
	r := rand.New(rand.NewPCG(e.script.seed, 1))
	b := make([]byte, 64<<10)
	for {
		n, err := e.conn.Read(b)
		if n > 0 && e.result.wrong == nil {
			e.result.wrong = compare(b[:n], e.in, e.received)
		}
		e.mu.Lock()
		e.received += int64(n)
		e.ended = err != nil
		e.changed.Broadcast()
		e.mu.Unlock()
		if err != nil {
			e.result.received, e.result.end = e.received, err
			return
		}
		if r.Float64() < e.script.stalls {
			pause(r, 50*time.Millisecond)
		}
	}
}

// write sends what may be sent, until all of it is or nothing can be any more.
func (e *peer) write() {
	r := rand.New(rand.NewPCG(e.script.seed, 2))
	b := make([]byte, e.script.chunk)
	for e.result.sent < e.script.size {
		upTo := e.awaitTurn()
		if upTo <= e.result.sent {
			return // it never comes
		}
		n := min(1+r.IntN(e.script.chunk), int(min(upTo-e.result.sent, int64(e.script.chunk))))
		send := e.conn.Write
		if r.Float64() < e.script.urgent {
			n, send = 1, e.sendUrgent
		}
		fill(b[:n], e.out, e.result.sent)
		sent, err := send(b[:n])
		e.result.sent += int64(sent)
		if err != nil {
			e.result.refusal = err
			return
		}
		if r.Float64() < e.script.pauses {
			pause(r, e.script.pause)
		}
	}
}

// awaitTurn returns up to where may be sent, or what was sent if that is all for ever.
func (e *peer) awaitTurn() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		upTo := e.script.mayUpTo(e.received, e.ended)
		if upTo > e.result.sent || e.ended {
			return upTo
		}
		e.changed.Wait()
	}
}

// sendUrgent sends one byte as urgent data, in line.
func (e *peer) sendUrgent(b []byte) (int, error) {
	raw, err := e.conn.(interface {
		SyscallConn() (syscall.RawConn, error)
	}).SyscallConn()
	if err != nil {
		return 0, err
	}
	var n int
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		n, sent = unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_OOB|unix.MSG_NOSIGNAL)
		return !errors.Is(sent, unix.EAGAIN)
	})
	return max(n, 0), errors.Join(err, sent)
}

// reset ends both streams at once, after a while, and after its own end where it says so.
func (e *peer) reset() {
	r := rand.New(rand.NewPCG(e.script.seed, 3))
	if e.script.first {
		_ = e.conn.(interface{ CloseWrite() error }).CloseWrite()
	}
	pause(r, 50*time.Millisecond)
	e.mu.Lock()
	early := e.ended
	e.mu.Unlock()
	if early && e.result.refusal == nil {
		return // somebody else has ended it; reading tells who
	}
	if tcp, ok := e.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = e.conn.Close()
}

// pause is what the peer does, and waits for nothing.
func pause(r *rand.Rand, most time.Duration) {
	if most > 0 {
		time.Sleep(time.Duration(r.Int64N(int64(most))))
	}
}

// isReset tells a RST without a FIN.
func isReset(err error) bool { return errors.Is(err, unix.ECONNRESET) }

// isBoth tells a RST that came after a FIN (tcp_reset of the kernel). A socket of Multipath
// TCP whose peer speaks plain TCP has its own word for it.
func isBoth(err error) bool { return errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ENOTCONN) }

func isEnd(err error) bool { return errors.Is(err, io.EOF) }

func isStuck(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
