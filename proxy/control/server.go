package control

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/httpserver"
)

// Bounds of one request. A route that takes longer, because it answers only
// when a thing is done, lifts both deadlines for itself through
// http.ResponseController.
const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 10 * time.Second // headers and body
	answerTimeout  = 10 * time.Second
	maxHeader      = 8 << 10  // bytes
	maxBody        = 64 << 10 // bytes

	// stopTimeout is what requests under way get when the server stops. All but changes
	// are over by the bounds above. A change is bounded by the instance: that for an
	// upgrade is answered when another process serves already, and has the answer of a
	// slow service manager.
	stopTimeout = 2 * time.Minute
)

// Serve answers requests on listener, which listens on a Unix socket, until ctx
// ends, then closes it and returns nil once all connections are closed. Any other
// end is an error.
func Serve(ctx context.Context, listener net.Listener, instance Instance, log *slog.Logger) error {
	server := &http.Server{
		Handler:                      http.MaxBytesHandler(routes(instance), maxBody),
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            headerTimeout,
		ReadTimeout:                  requestTimeout,
		WriteTimeout:                 answerTimeout,
		MaxHeaderBytes:               maxHeader,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	server.SetKeepAlivesEnabled(false) // a command asks once
	if err := httpserver.Serve(ctx, server, newGate(listener, log), stopTimeout); err != nil {
		return fmt.Errorf("control socket %s: %w", listener.Addr(), err)
	}
	return nil
}
