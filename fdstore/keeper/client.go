package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Client is a process's view of the keeper that runs it. A nil Client is that of a
// process which no keeper runs.
type Client struct {
	address string
}

// ClientFromEnv makes the Client that $KEEPER_SOCKET is for, nil when it is not set,
// and unsets the variable: it is not for children. A process that is to succeed this
// one is told [Client.Environ].
func ClientFromEnv() *Client {
	address := os.Getenv(socketVariable)
	_ = os.Unsetenv(socketVariable) // fails for malformed names only
	if address == "" {
		return nil
	}
	return &Client{address}
}

// Environ are the variables that ClientFromEnv reads, for another process.
func (c *Client) Environ() []string {
	if c == nil {
		return nil
	}
	return []string{socketVariable + "=" + c.address}
}

// Job asks what follows when this process ends. It is JobUnknown for a nil Client, and
// with an error when the keeper does not answer within ctx.
//
// A stop is known before the signal that asks for it is sent.
func (c *Client) Job(ctx context.Context) (Job, error) {
	if c == nil {
		return JobUnknown, nil
	}
	conn, job, err := c.ask(ctx)
	if err != nil {
		return JobUnknown, err
	}
	return job, conn.Close()
}

// How long to wait until a keeper is looked for again, at first and at most.
const (
	firstLook = 20 * time.Millisecond
	rarely    = time.Second
)

// Follow watches the keeper until ctx ends, and calls renewed each time when it is
// another one. That one has nothing stored: all of it is to be pushed again.
//
// A nil Client has no keeper to come back.
func (c *Client) Follow(ctx context.Context, renewed func()) {
	if c == nil {
		return
	}
	pause := time.Duration(0)
	for first := true; ctx.Err() == nil; {
		conn, _, err := c.ask(ctx)
		if err != nil {
			pause = min(max(2*pause, firstLook), rarely)
			wait(ctx, pause)
			first = false
			continue
		}
		if !first {
			renewed()
		}
		first, pause = false, 0
		awaitEnd(conn)
	}
}

// ask connects to the keeper and gives its first word. Without that it may have been
// about to die.
func (c *Client) ask(ctx context.Context) (net.Conn, Job, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unixpacket", c.address)
	if err != nil {
		return nil, JobUnknown, fmt.Errorf("ask the keeper: %w", err)
	}
	w := &watched{Conn: conn}
	w.stop = context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	job, err := readJob(w)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, JobUnknown, errors.Join(fmt.Errorf("ask the keeper at %s: %w", c.address, err), w.Close())
	}
	return w, job, nil
}

func readJob(r io.Reader) (Job, error) {
	word := make([]byte, 16)
	n, err := r.Read(word)
	if err != nil {
		return JobUnknown, err
	}
	switch job := Job(word[:n]); job {
	case JobRestart, JobStop:
		return job, nil
	default:
		return JobUnknown, fmt.Errorf("%q is no answer", job)
	}
}

// watched is a connection that gives nothing any more when its context has ended.
type watched struct {
	net.Conn
	stop func() bool
}

// Close implements net.Conn.
func (w *watched) Close() error {
	w.stop()
	return w.Conn.Close()
}

// awaitEnd reads until the keeper is gone.
func awaitEnd(conn net.Conn) {
	for {
		if _, err := readJob(conn); err != nil {
			_ = conn.Close()
			return
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
