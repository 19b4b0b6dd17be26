package control

import (
	"context"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// drainPath takes POST: the answer comes when the connections that were there have ended.
const drainPath = "/v1/drain"

// Drain has the instance end the connections that are there, over its drain_timeout, and
// returns when that is done. Others are accepted meanwhile, and stay. Who goes away, by
// the end of ctx, ends the draining.
func (c *Client) Drain(ctx context.Context) (status.Drain, error) {
	return askTo[status.Drain](ctx, c, drainPath)
}
