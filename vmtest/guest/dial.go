package main

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// dial connects as a blocking client would. A Unix socket whose queue is full
// fails at once for the non-blocking sockets of Go, so that is tried again until
// patience is over.
func dial(a address, patience time.Duration) (halfCloser, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, a.network, a.host)
		if err == nil {
			return conn.(halfCloser), nil
		}
		if !errors.Is(err, syscall.EAGAIN) {
			return nil, err
		}
		sleep(ctx, time.Millisecond)
	}
}
