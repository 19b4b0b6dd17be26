package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"
)

// idleWorkers open the idle connections of an address, and end them.
const idleWorkers = 8

// holdIdle opens connections one after the other, moves a little on each, and again when
// ctx has ended.
func (l *load) holdIdle(ctx context.Context, a address, count int) {
	held := make([]*idler, 0, count)
	for range count {
		i, err := l.open(a)
		if err != nil {
			l.tally.streamed(a, err)
			break
		}
		held = append(held, i)
		l.tally.firstAnswer()
	}
	if count > 0 {
		<-ctx.Done()
	}
	for _, i := range held {
		l.tally.streamed(a, i.end(l.patience))
	}
}

// idler is one of them.
type idler struct {
	conn halfCloser
	text pattern
}

func (l *load) open(a address) (*idler, error) {
	conn, err := dial(a, l.patience)
	if err != nil {
		return nil, err
	}
	i := &idler{conn, newPattern(rand.Uint64())}
	if err := i.exchange(l.patience); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return i, nil
}

func (i *idler) exchange(patience time.Duration) error {
	_ = i.conn.SetDeadline(time.Now().Add(patience)) // fails on closed connections only
	var said, answer [16]byte
	i.text.next(said[:])
	if _, err := i.conn.Write(said[:]); err != nil {
		return err
	}
	n, err := io.ReadFull(i.conn, answer[:])
	switch {
	case !bytes.Equal(said[:n], answer[:n]):
		return errWrong
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

func (i *idler) end(patience time.Duration) error {
	defer i.conn.Close()
	if err := i.exchange(patience); err != nil {
		return err
	}
	if err := i.conn.CloseWrite(); err != nil {
		return err
	}
	rest, err := io.ReadAll(i.conn)
	if err == nil && len(rest) > 0 {
		return errWrong
	}
	return err
}
