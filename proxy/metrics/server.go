package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-proxy/holdfast/proxy/httpserver"
)

// Bounds, because the address may be open to others than Prometheus. They also
// keep silent clients from using up the descriptors that the traffic needs.
const (
	maxConns      = 64      // further ones are closed at once
	maxScrapes    = 4       // at once; further ones get 503
	maxHeader     = 8 << 10 // bytes
	headerTimeout = 5 * time.Second
	answerTimeout = 10 * time.Second

	// stopTimeout is what requests under way get when the server stops.
	stopTimeout = time.Second
)

// Serve answers GET /metrics and GET /ready on listener until ctx ends, then
// closes it and returns nil once all connections are closed. Any other end is
// an error. To be seen draining, an instance keeps it running while it drains.
func Serve(ctx context.Context, listener net.Listener, instance Instance, log *slog.Logger) error {
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	server := &http.Server{
		Handler:           handler(instance, errorLog),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		WriteTimeout:      answerTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnState:         limitConns(),
		ErrorLog:          errorLog,
	}
	server.SetKeepAlivesEnabled(false) // scrapes are seconds apart
	if err := httpserver.Serve(ctx, server, listener, stopTimeout); err != nil {
		return fmt.Errorf("metrics on %s: %w", listener.Addr(), err)
	}
	return nil
}

func handler(instance Instance, errorLog promhttp.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry(instance), promhttp.HandlerOpts{
		ErrorLog:            errorLog,
		MaxRequestsInFlight: maxScrapes,
	}))
	mux.Handle("GET /ready", ready(instance))
	return mux
}

// limitConns counts connections and closes those above maxConns before a byte
// is read from them.
func limitConns() func(net.Conn, http.ConnState) {
	var open atomic.Int64
	return func(conn net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			open.Add(-1)
		}
		if state == http.StateNew && open.Add(1) > maxConns {
			_ = conn.Close()
		}
	}
}
