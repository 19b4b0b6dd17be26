package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
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

	// stopTimeout is what requests under way get when the server stops.
	stopTimeout = 2 * time.Second
)

// Serve answers requests on socket until ctx ends, then closes the socket and
// returns nil once all connections are closed. Any other end is an error.
func Serve(ctx context.Context, socket *Socket, instance Instance, log *slog.Logger) error {
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

	ended := make(chan error, 1)
	go func() { ended <- server.Serve(newGate(socket, log)) }() // ends by Shutdown, or when accept fails for good

	select {
	case err := <-ended:
		return fmt.Errorf("control socket %s: %w", socket.path, err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(stop); err != nil {
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("control socket %s: %w", socket.path, err)
	}
	return nil
}
