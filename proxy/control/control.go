// Package control lets an operator's commands talk to a running instance:
// HTTP/1.1 with JSON bodies over a Unix socket. It holds both ends, so that a
// route and the client's method for it stand in one file and change together.
//
// The server is handed a listening Unix socket, which is its own from then on.
// Only processes of its own user and root are answered, whatever the mode of the
// socket file; what they send is bounded in size, time and number. It never
// changes the instance by itself: a route asks the Instance.
//
//	err := control.Serve(ctx, listener, engine, log) // until ctx ends
//
//	answer, err := control.NewClient("/run/holdfast/control.sock").Status(ctx)
package control

import (
	"context"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// Instance is what the server asks on behalf of its clients. Its methods are
// called from many goroutines at once.
type Instance interface {
	Status() status.Status
	// Reload puts the configuration, as it is now, into service. After an error,
	// a *RefusedError where there is more to say, the instance is as before.
	Reload(ctx context.Context) (status.Reload, error)
	// Upgrade has another process take over. After an error, as above, the instance is
	// as before.
	Upgrade(ctx context.Context) (status.Upgrade, error)
	// Drain ends the connections that are there. When ctx ends it ends no more.
	Drain(ctx context.Context) (status.Drain, error)
}
