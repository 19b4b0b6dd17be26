package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// serveChange has the instance do a thing, and answers when it is done, or with the
// reason why it is not.
func serveChange[T any](change func(context.Context) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// Names are looked up, a process starts, and other changes may come first.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		done, err := change(r.Context())
		if err != nil {
			writeRefusal(w, err)
			return
		}
		writeJSON(w, http.StatusOK, done)
	}
}

// askTo is the client's side of serveChange.
func askTo[T any](ctx context.Context, c *Client, path string) (done T, err error) {
	raw, err := c.call(ctx, http.MethodPost, path)
	if err != nil {
		return done, err
	}
	return done, c.decode(raw, &done)
}

// decode reads an answer.
func (c *Client) decode(raw json.RawMessage, answer any) error {
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("control socket %s: %w: %w", c.path, errForeign, err)
	}
	return nil
}
