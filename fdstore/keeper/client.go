package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Client is a process's view of the keeper that runs it. A nil Client is that of a
// process which no keeper runs.
type Client struct {
	address string
	id      atomic.Pointer[string] // of the keeper that started the process, or of the last that Follow has seen
	gone    atomic.Bool            // nobody answers, or he who does has not got everything yet
}

// ClientFromEnv makes the Client that $KEEPER_SOCKET and $KEEPER_ID are for, nil when
// they are not set, and unsets them: they are not for children. A process that is to
// succeed this one is given [Client.Environ].
func ClientFromEnv() *Client {
	c := &Client{address: os.Getenv(socketVariable)}
	id := os.Getenv(idVariable)
	c.id.Store(&id)
	_ = os.Unsetenv(socketVariable) // fails for malformed names only
	_ = os.Unsetenv(idVariable)
	if c.address == "" {
		return nil
	}
	return c
}

// Environ are the variables that ClientFromEnv reads, for another process. If Follow has
// seen another keeper since, they name that one: who succeeds this process and what it has
// stored need not store it again.
func (c *Client) Environ() []string {
	if c == nil {
		return nil
	}
	return []string{socketVariable + "=" + c.address, idVariable + "=" + *c.id.Load()}
}

// Job asks what follows when this process ends. It is JobUnknown for a nil Client, and
// with an error when the keeper does not answer within ctx.
//
// A stop is known before the signal that asks for it is sent.
func (c *Client) Job(ctx context.Context) (Job, error) {
	if c == nil {
		return JobUnknown, nil
	}
	conn, w, err := c.ask(ctx)
	if err != nil {
		return JobUnknown, err
	}
	return w.job, conn.Close()
}

// IsParent tells whether the keeper is this process's parent. One that has taken it on
// after the death of another keeper is not, and does not know who is started by
// CLONE_PARENT then. It is false for a nil Client, and when the keeper does not answer
// within ctx.
func (c *Client) IsParent(ctx context.Context) bool {
	if c == nil {
		return false
	}
	conn, _, err := c.ask(ctx)
	if err != nil {
		return false
	}
	defer conn.Close()
	raw, err := conn.(*watched).Conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return false
	}
	var keeper sock.Peer
	err = errors.Join(raw.Control(func(fd uintptr) { keeper, err = sock.PeerOf(int(fd)) }), err)
	return err == nil && keeper.PID == os.Getppid()
}

// Answers tells whether there is a keeper that has what it was given. There is none from
// when Follow has found that nobody answers, or that another one does, until renewed has
// returned for that one. Before that, and without Follow, it is the keeper that has started
// the process. It is false for a nil Client.
func (c *Client) Answers() bool { return c != nil && !c.gone.Load() }

// How long to wait until a keeper is looked for again, at first and at most.
const (
	firstLook = 20 * time.Millisecond
	rarely    = time.Second
)

// Follow watches the keeper until ctx ends, and calls renewed each time when it is
// another one. That one has nothing stored: all of it is to be pushed again. If it
// cannot be, that keeper is gone, too, and renewed is called for the next.
//
// A nil Client has no keeper to come back.
func (c *Client) Follow(ctx context.Context, renewed func()) {
	if c == nil {
		return
	}
	known, pause := *c.id.Load(), time.Duration(0)
	for ctx.Err() == nil {
		conn, w, err := c.ask(ctx)
		if err != nil {
			if isAbsent(err) {
				c.gone.Store(true)
			}
			pause = min(max(2*pause, firstLook), rarely)
			wait(ctx, pause)
			continue
		}
		if w.id != known {
			c.gone.Store(true)
			renewed()
			c.id.Store(&w.id)
		}
		c.gone.Store(false)
		known, pause = w.id, 0
		awaitEnd(conn)
		wait(ctx, firstLook) // a keeper that has too many to talk to has driven it out
	}
}

// isAbsent tells the errors of ask that mean that there is no keeper: it has no socket, or
// has closed it, or it is not a keeper that answers there. This process may also have no
// descriptor left to ask with, or no time.
func isAbsent(err error) bool {
	absent := []error{unix.ECONNREFUSED, unix.ENOENT, unix.ECONNRESET, unix.EPIPE, io.EOF, errNoAnswer}
	return slices.ContainsFunc(absent, func(e error) bool { return errors.Is(err, e) })
}

// errNoAnswer means that somebody else than a keeper has the address.
var errNoAnswer = errors.New("not a word of a keeper")

// ask connects to the keeper and gives its first word. Without that it may have been
// about to die.
func (c *Client) ask(ctx context.Context) (net.Conn, word, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unixpacket", c.address)
	for errors.Is(err, unix.EAGAIN) && ctx.Err() == nil { // so many wait for an answer
		wait(ctx, firstLook)
		conn, err = d.DialContext(ctx, "unixpacket", c.address)
	}
	if err != nil {
		return nil, word{}, fmt.Errorf("ask the keeper: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	w, err := readWord(conn)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		stop()
		return nil, word{}, errors.Join(fmt.Errorf("ask the keeper at %s: %w", c.address, err), conn.Close())
	}
	return &watched{conn, stop}, w, nil
}

// word is what a keeper says.
type word struct {
	job Job
	id  string
}

func readWord(r io.Reader) (word, error) {
	message := make([]byte, 64)
	n, err := r.Read(message)
	if err != nil {
		return word{}, err
	}
	job, id, _ := strings.Cut(string(message[:n]), " ")
	switch w := (word{Job(job), id}); w.job {
	case JobRestart, JobStop:
		return w, nil
	default:
		return word{}, fmt.Errorf("%w: %.64q", errNoAnswer, message[:n])
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
		if _, err := readWord(conn); err != nil {
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
