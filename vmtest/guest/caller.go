package main

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"time"
)

// callSize is the data of one call, in bytes: a small request.
const callSize = 256

// keepCalling makes one call after the other.
func (l *load) keepCalling(ctx context.Context, a address) {
	answered := false
	for ctx.Err() == nil {
		err := l.call(a)
		l.tally.called(a, err)
		if err == nil && !answered {
			answered = true
			l.tally.firstAnswer()
		}
		l.rest(ctx)
	}
}

// call opens a connection, says something, says that this was all, and reads
// the answer to its end. Half of what it has to say it keeps back for up to hold:
// whatever ends the connection meanwhile is noticed.
func (l *load) call(a address) error {
	conn, err := dial(a, l.patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(l.patience)) // fails on closed connections only
	said := make([]byte, callSize)
	newPattern(rand.Uint64()).next(said)
	if _, err := conn.Write(said[:callSize/2]); err != nil {
		return err
	}
	time.Sleep(rand.N(l.hold + 1))
	if _, err := conn.Write(said[callSize/2:]); err != nil {
		return err
	}
	if err := conn.CloseWrite(); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	switch {
	case err != nil:
		return err
	case bytes.Equal(answer, said):
		return nil
	case bytes.HasPrefix(said, answer):
		return io.ErrUnexpectedEOF
	}
	return errWrong
}
