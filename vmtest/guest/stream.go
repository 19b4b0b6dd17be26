package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// pieces are the sizes of the pieces of data on a stream, in turn: less and more than a
// segment, and than a buffer.
var pieces = []int{1, 700, 1449, 20_000}

// keepStreaming holds one connection open and moves data on it both ways. One
// that breaks is counted, and replaced.
func (l *load) keepStreaming(ctx context.Context, a address) {
	answered := false
	for ctx.Err() == nil {
		s := &stream{patience: l.patience, beat: l.beat, moved: l.tally.moved}
		s.firstAnswer = func() {
			if !answered {
				answered = true
				l.tally.firstAnswer()
			}
		}
		l.tally.streamed(a, s.run(ctx, a))
		l.rest(ctx)
	}
}

// stream sends a pattern and expects it back, without waiting for one piece
// before it sends the next.
type stream struct {
	patience    time.Duration
	beat        time.Duration // between two pieces, on average
	moved       func(bytes int, underWay time.Duration)
	firstAnswer func()

	mu       sync.Mutex
	sent     int64
	underWay []piece // oldest first
}

// piece is data that was sent and has not come back.
type piece struct {
	end  int64 // offset in the stream
	sent time.Time
}

// run ends well when ctx has ended and all that was sent has come back.
func (s *stream) run(ctx context.Context, a address) error {
	conn, err := dial(a, s.patience)
	if err != nil {
		return err
	}
	seed := rand.Uint64()
	broken, stop := context.WithCancel(ctx)
	sender := make(chan error, 1)
	go func() { sender <- s.send(broken, conn, newPattern(seed)) }()
	err = s.receive(conn, newPattern(seed))
	early := ctx.Err() == nil && err == nil // the end came without having been asked for
	stop()
	_ = conn.Close()
	sendErr := <-sender

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		return err
	case sendErr != nil && !errors.Is(sendErr, net.ErrClosed):
		return sendErr // of a reset, one of the two gets the error and the other an end
	case early || len(s.underWay) > 0:
		return io.ErrUnexpectedEOF
	}
	return nil
}

// send ends when ctx does, by saying that this was all.
func (s *stream) send(ctx context.Context, conn halfCloser, text pattern) error {
	for i := 0; ctx.Err() == nil; i++ {
		b := make([]byte, pieces[i%len(pieces)])
		text.next(b)
		s.mu.Lock()
		s.sent += int64(len(b))
		s.underWay = append(s.underWay, piece{s.sent, time.Now()})
		s.mu.Unlock()
		_ = conn.SetWriteDeadline(time.Now().Add(s.patience)) // fails on closed connections only
		if _, err := conn.Write(b); err != nil {
			return err
		}
		sleep(ctx, rand.N(2*s.beat+1)) // so that many do not keep step
	}
	return conn.CloseWrite()
}

// receive reads and compares up to the end of the stream.
func (s *stream) receive(conn halfCloser, text pattern) error {
	got, want := make([]byte, 16<<10), make([]byte, 16<<10)
	for received := int64(0); ; {
		_ = conn.SetReadDeadline(time.Now().Add(s.patience)) // fails on closed connections only
		n, err := conn.Read(got)
		text.next(want[:n])
		if !bytes.Equal(got[:n], want[:n]) {
			return errWrong
		}
		received += int64(n)
		s.arrived(received, n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *stream) arrived(received int64, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var longest time.Duration
	for len(s.underWay) > 0 && s.underWay[0].end <= received {
		longest = max(longest, time.Since(s.underWay[0].sent))
		s.underWay = s.underWay[1:]
		s.firstAnswer()
	}
	s.moved(n, longest)
}
