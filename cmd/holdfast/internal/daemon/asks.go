package daemon

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/metrics"
)

// listenMetrics opens the metrics address; nil when there is none.
func listenMetrics(a *config.Address) (net.Listener, error) {
	if a == nil {
		return nil, nil
	}
	address := a.Path
	if a.Network == "tcp" {
		address = net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(context.Background(), a.Network, address)
	if err != nil {
		return nil, fmt.Errorf("metrics address %v: %w", a, err)
	}
	return l, nil
}

func closeIfOpen(l net.Listener) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

// ask opens the instance to questions: on the control socket, and over HTTP where
// metrics is not nil. Both end with stopAsks.
func (d *daemon) ask(socket *control.Socket, listener net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	d.stopAsks = cancel
	d.serving.Go(func() {
		if err := control.Serve(ctx, socket, d.engine, d.log); err != nil {
			d.failures <- err
		}
	})
	if listener == nil {
		return
	}
	d.serving.Go(func() {
		if err := metrics.Serve(ctx, listener, d.engine, d.log); err != nil {
			d.failures <- err
		}
	})
}
