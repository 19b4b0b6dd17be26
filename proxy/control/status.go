package control

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

const statusPath = "/v1/status"

// serveStatus is GET /v1/status: what the instance says of itself.
func serveStatus(instance Instance) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, instance.Status())
	}
}

// Status asks the instance for a snapshot of itself. Fields that only the other
// version of the program knows are ignored, or left zero.
func (c *Client) Status(ctx context.Context) (status.Status, error) {
	answer, _, err := c.status(ctx)
	return answer, err
}

// StatusJSON is Status in the instance's own words, with all their fields.
func (c *Client) StatusJSON(ctx context.Context) (json.RawMessage, error) {
	_, raw, err := c.status(ctx)
	return raw, err
}

func (c *Client) status(ctx context.Context) (status.Status, json.RawMessage, error) {
	raw, err := c.call(ctx, http.MethodGet, statusPath)
	if err != nil {
		return status.Status{}, nil, err
	}
	var answer status.Status
	if err := c.decode(raw, &answer); err != nil {
		return status.Status{}, nil, err
	}
	return answer, raw, nil
}
