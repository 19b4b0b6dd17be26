package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

const reloadPath = "/v1/reload"

// serveReload is POST /v1/reload: it answers when the configuration is in service, or
// with what is wrong with it.
func serveReload(instance Instance) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// Names are looked up, and other reloads may come first.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		done, err := instance.Reload(r.Context())
		if err != nil {
			writeRefusal(w, err)
			return
		}
		writeJSON(w, http.StatusOK, done)
	}
}

// Reload asks the instance to read its configuration again, and returns when that is
// in service. If it is refused the error is a *RefusedError with the reasons, and the
// instance is as before.
func (c *Client) Reload(ctx context.Context) (status.Reload, error) {
	raw, err := c.call(ctx, http.MethodPost, reloadPath)
	if err != nil {
		return status.Reload{}, err
	}
	var done status.Reload
	if err := json.Unmarshal(raw, &done); err != nil {
		return status.Reload{}, fmt.Errorf("control socket %s: %w: %w", c.path, errForeign, err)
	}
	return done, nil
}
