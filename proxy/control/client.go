package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotRunning says that nobody listens on the control socket.
var ErrNotRunning = errors.New("not running")

var (
	// errForeign says that whoever listens there is not Holdfast.
	errForeign = errors.New("the program that answers there does not speak Holdfast's protocol")

	// errNoSocket says that the path leads to something else.
	errNoSocket = fmt.Errorf("%w: that is not a socket", ErrNotRunning)

	// errCut is what a refused user gets too: the server says nothing to it.
	errCut = errors.New("the connection was closed before an answer came")
)

const (
	contentType = "application/json"

	// maxAnswer bounds what is read, headers included, in bytes: another program
	// may listen there. A status takes some 300 bytes a socket.
	maxAnswer = 16 << 20
)

// Client asks the instance behind one control socket. It holds no connection
// between calls. How long a call may take is its context's matter.
//
// Errors of all calls name the socket. They wrap ErrNotRunning where nobody
// listens, and fs.ErrPermission where this user may not connect.
type Client struct {
	path string
}

// NewClient makes a client for the instance at path. It does not connect yet.
func NewClient(path string) *Client {
	return &Client{path: path}
}

// call returns the JSON body of a success.
func (c *Client) call(ctx context.Context, method, path string) (json.RawMessage, error) {
	body, err := c.exchange(ctx, method, path)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer: %w", context.Cause(ctx))
		}
		return nil, fmt.Errorf("control socket %s: %w", c.path, err)
	}
	return body, nil
}

// exchange sends one request over a connection of its own. An http.Transport
// would add goroutines and retries, and does not tell a close from garbage.
func (c *Client) exchange(ctx context.Context, method, path string) (json.RawMessage, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.path)
	if err != nil {
		return nil, explainDial(c.path, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()

	request, err := http.NewRequestWithContext(ctx, method, "http://holdfast"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Close = true
	_ = request.Write(conn) // after a failure there may still be an answer that says why

	limited := &io.LimitedReader{R: conn, N: maxAnswer}
	response, body, err := readResponse(limited, request)
	switch {
	case limited.N == 0:
		return nil, fmt.Errorf("%w: the answer has more than %d bytes", errForeign, maxAnswer)
	case err == nil:
		return judge(response, body)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, unix.ECONNRESET):
		return nil, errCut
	case errors.Is(err, os.ErrDeadlineExceeded): // call says why
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", errForeign, err)
}

func readResponse(r io.Reader, request *http.Request) (*http.Response, []byte, error) {
	response, err := http.ReadResponse(bufio.NewReader(r), request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, body, err
}

// judge tells a success from a refusal, and both from a foreign answer.
func judge(response *http.Response, body []byte) (json.RawMessage, error) {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind == contentType && response.StatusCode == http.StatusOK {
		return body, nil
	}
	var refusal failure
	if kind != contentType || json.Unmarshal(body, &refusal) != nil || refusal.Error == "" {
		return nil, fmt.Errorf("%w: it says %q", errForeign, response.Status)
	}
	return nil, &RefusedError{Reason: refusal.Error, Problems: refusal.Problems}
}

// explainDial says in the operator's words why there is no connection.
func explainDial(path string, err error) error {
	switch info, statErr := os.Stat(path); { //nolint:gosec // the path is the caller's
	case statErr == nil && info.Mode().Type() != fs.ModeSocket:
		return errNoSocket
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return ErrNotRunning
	case errors.Is(err, fs.ErrPermission):
		return fs.ErrPermission
	case errors.Is(err, unix.EPROTOTYPE): // a datagram socket
		return errForeign
	}
	var op *net.OpError
	if errors.As(err, &op) { // its text repeats the path
		return op.Err
	}
	return err
}
