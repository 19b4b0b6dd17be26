package control

import (
	"context"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// upgradePath takes POST: the answer comes when another process has taken over, or says
// why none has.
const upgradePath = "/v1/upgrade"

// Upgrade asks the instance to start the program as it is installed now and to let it
// take over, and returns when that is done. If it is not the error is a *RefusedError
// with the reason, and the instance is as before.
func (c *Client) Upgrade(ctx context.Context) (status.Upgrade, error) {
	return askTo[status.Upgrade](ctx, c, upgradePath)
}
