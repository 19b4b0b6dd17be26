package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// patience is for a stream that does not go on.
const patience = 30 * time.Second

// sum is the hash of a stream, and its length.
type sum struct {
	hash  [sha256.Size]byte
	bytes int64
}

func sumOf(h hash.Hash, bytes int64) sum { return sum{[sha256.Size]byte(h.Sum(nil)), bytes} }

func (s sum) String() string { return fmt.Sprintf("%s  sha256 %x…", megabytes(s.bytes), s.hash[:8]) }

// server sends noise to one client until that has had enough.
type server struct {
	address string
	sent    chan sum
}

func startServer() (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{l.Addr().String(), make(chan sum, 1)}
	go func() { // ends with the connection
		conn, err := l.Accept()
		_ = l.Close()
		if err == nil {
			s.sent <- send(conn)
		}
	}()
	return s, nil
}

// send returns what was sent, as far as the connection took it.
func send(conn net.Conn) sum {
	defer func() { _ = conn.Close() }()
	enough := make(chan struct{})
	go func() { // ends with the client's half of the connection
		_, _ = io.Copy(io.Discard, conn)
		close(enough)
	}()
	const piece, rate = 64 << 10, time.Millisecond // at most 64 MB a second
	block := make([]byte, piece)
	_, _ = rand.Read(block)
	h, n := sha256.New(), int64(0)
	for again := time.NewTicker(rate); ; {
		select {
		case <-enough:
			return sumOf(h, n)
		case <-again.C:
		}
		binary.NativeEndian.PutUint64(block, uint64(n)) // no two pieces are alike
		wrote, err := conn.Write(block)
		h.Write(block[:wrote])
		n += int64(wrote)
		if err != nil {
			return sumOf(h, n)
		}
	}
}

// download reads a stream and looks at the clock.
type download struct {
	conn    *net.TCPConn
	bytes   atomic.Int64
	longest atomic.Int64 // pause between two reads since resetPause, in nanoseconds
	ended   chan error
	sum     sum // when it has ended
}

func startDownload(address string) (*download, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	d := &download{conn: conn.(*net.TCPConn), ended: make(chan error, 1)}
	go func() { d.ended <- d.read() }() // ends with the stream
	return d, nil
}

func (d *download) read() error {
	h, block, last := sha256.New(), make([]byte, 64<<10), time.Now()
	for {
		_ = d.conn.SetReadDeadline(time.Now().Add(patience))
		n, err := d.conn.Read(block)
		h.Write(block[:n])
		d.bytes.Add(int64(n))
		d.longest.Store(max(d.longest.Load(), int64(time.Since(last))))
		last = time.Now()
		switch {
		case errors.Is(err, io.EOF):
			d.sum = sumOf(h, d.bytes.Load())
			return nil
		case err != nil:
			return fmt.Errorf("after %s: %w", megabytes(d.bytes.Load()), err)
		}
	}
}

func (d *download) resetPause() { d.longest.Store(0) }

func (d *download) pause() time.Duration { return time.Duration(d.longest.Load()) }

// awaitMore waits until the stream goes on by more than all buffers hold.
func (d *download) awaitMore() error {
	const more = 4 << 20
	for goal := d.bytes.Load() + more; d.bytes.Load() < goal; {
		select {
		case err := <-d.ended:
			return errors.Join(errors.New("the download was cut off"), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// finish tells the server that it is enough, and reads to the end.
func (d *download) finish() (sum, error) {
	if err := d.conn.CloseWrite(); err != nil {
		return sum{}, err
	}
	err := <-d.ended
	return d.sum, err
}
