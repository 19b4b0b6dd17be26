// Package httpserver runs an HTTP server for as long as a context lasts. What is
// served, and within which bounds, is its callers' matter.
package httpserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Serve serves on listener, which is its own from now on, until ctx ends; then
// it gives requests under way the time of grace, closes what is left, and returns
// nil. Any other end is an error.
func Serve(ctx context.Context, server *http.Server, listener net.Listener, grace time.Duration) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }() // ends by Shutdown, or when accept fails for good

	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(stop); err != nil {
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
