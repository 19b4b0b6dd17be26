package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readPatience is how long a file may take. That of a mount that does not answer, or a
// pipe to which nobody writes, would hold up whoever reads it for ever.
const readPatience = 5 * time.Second

// Read reads the file, at most as much of it as a configuration may have, and
// gathers it with the rest that decides the configuration. It judges nothing but
// the extension. An error is one of those of [Load]; it wraps that of a context if the
// file did not come before ctx ended, or within five seconds.
func (s Source) Read(ctx context.Context) (Inputs, error) {
	in := Inputs{File: s.File, Environ: relevant(s.Environ), Overrides: s.Overrides}
	if s.File == "" {
		return in, nil
	}
	if _, problems := parserFor(s.File); problems != nil {
		return Inputs{}, &Error{Problems: problems}
	}
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	data, problems := readFile(ctx, s.File)
	if problems == nil {
		in.Data = data
		return in, nil
	}
	unread := &Error{Problems: problems}
	if s.FileOptional && errors.Is(unread, fs.ErrNotExist) {
		in.Missing = true
		return in, nil
	}
	return Inputs{}, unread
}

// pipePause is how often a pipe is looked at to which nobody writes yet.
const pipePause = 10 * time.Millisecond

// readFile reads a regular file or a pipe, at most maxSize and one more byte.
func readFile(ctx context.Context, file string) ([]byte, []Problem) {
	data, err := readInTime(ctx, file)
	if err == nil {
		return data, nil
	}
	reason := err
	var pathError *os.PathError
	if errors.As(err, &pathError) {
		reason = pathError.Err
	}
	problem := Problem{File: file, Message: "cannot read: " + reason.Error(), cause: fmt.Errorf("read config: %w", err)}
	if errors.Is(err, context.DeadlineExceeded) {
		problem.Hint = "it is a pipe to which nobody writes, or on a mount that does not answer"
	}
	return nil, []Problem{problem}
}

// reads has a place for each reading that may hang. Each that does holds a thread.
var reads = make(chan struct{}, 4)

// readInTime gives up on the file when ctx ends: nothing else ends a reading from a
// mount that does not answer, which goes on then and is in nobody's way.
func readInTime(ctx context.Context, file string) ([]byte, error) {
	type content struct {
		data []byte
		err  error
	}
	done := make(chan content, 1)
	select {
	case reads <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("earlier attempts hang: %w", ctx.Err())
	}
	go func() {
		data, err := readLimited(ctx, file)
		<-reads
		done <- content{data, err}
	}()
	select {
	case c := <-done:
		return c.data, c.err
	case <-ctx.Done():
		return nil, notComing(ctx.Err())
	}
}

func notComing(err error) error { return fmt.Errorf("it does not come: %w", err) }

// readLimited waits for who writes to a pipe, not longer than ctx lasts. Nothing bounds
// the reading of another file.
func readLimited(ctx context.Context, file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read from
	deadline, _ := ctx.Deadline()
	pipe := f.SetReadDeadline(deadline) == nil
	for {
		data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, notComing(context.DeadlineExceeded)
		case err != nil || !pipe || len(data) > 0:
			return data, err
		case ctx.Err() != nil:
			return nil, notComing(ctx.Err())
		}
		time.Sleep(pipePause) // nobody writes yet: a pipe has ended then
	}
}
