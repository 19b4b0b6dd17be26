package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

const upgradePath = "/v1/upgrade"

// serveUpgrade is POST /v1/upgrade: it answers when another process has taken over, or
// with the reason why none has.
func serveUpgrade(instance Instance) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a process starts meanwhile
		done, err := instance.Upgrade(r.Context())
		if err != nil {
			writeRefusal(w, err)
			return
		}
		writeJSON(w, http.StatusOK, done)
	}
}

// Upgrade asks the instance to start the program as it is installed now and to let it
// take over, and returns when that is done. If it is not the error is a *RefusedError
// with the reason, and the instance is as before.
func (c *Client) Upgrade(ctx context.Context) (status.Upgrade, error) {
	raw, err := c.call(ctx, http.MethodPost, upgradePath)
	if err != nil {
		return status.Upgrade{}, err
	}
	var done status.Upgrade
	if err := json.Unmarshal(raw, &done); err != nil {
		return status.Upgrade{}, fmt.Errorf("control socket %s: %w: %w", c.path, errForeign, err)
	}
	return done, nil
}
