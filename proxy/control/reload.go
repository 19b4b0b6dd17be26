package control

import (
	"context"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// reloadPath takes POST: the answer comes when the configuration is in service, or says
// what is wrong with it.
const reloadPath = "/v1/reload"

// Reload asks the instance to read its configuration again, and returns when that is
// in service. If it is refused the error is a *RefusedError with the reasons, and the
// instance is as before.
func (c *Client) Reload(ctx context.Context) (status.Reload, error) {
	return askTo[status.Reload](ctx, c, reloadPath)
}
