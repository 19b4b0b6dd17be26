// Package demo is a small web server to try Holdfast with, so that the first run
// needs no upstream of one's own. Its page shows which connection it came over,
// and a stream that ticks once a second makes a long-lived connection visible.
package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/httpserver"
)

const (
	headerTimeout = 10 * time.Second

	// stopTimeout is what requests under way get when ctx ends; streams end at
	// once.
	stopTimeout = time.Second
)

// Start serves on a free TCP port of the loopback address until ctx ends. wait
// returns once all connections are closed, with an error if the server ended
// before ctx.
func Start(ctx context.Context) (address config.Address, wait func() error, err error) {
	listen := net.ListenConfig{}
	listen.SetMultipathTCP(false)
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return config.Address{}, nil, fmt.Errorf("demo upstream: %w", err)
	}
	server := &http.Server{
		Handler:           handler(time.Now()),
		ReadHeaderTimeout: headerTimeout,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       countRequests,
	}
	ended := make(chan error, 1)
	go func() { ended <- httpserver.Serve(ctx, server, listener, stopTimeout) }() // ends with ctx

	bound := netip.MustParseAddrPort(listener.Addr().String())
	address = config.Address{Network: "tcp", Host: bound.Addr().String(), Port: bound.Port()}
	return address, func() error {
		if err := <-ended; err != nil {
			return fmt.Errorf("demo upstream: %w", err)
		}
		return nil
	}, nil
}
