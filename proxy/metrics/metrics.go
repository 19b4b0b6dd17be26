// Package metrics shows a running instance to Prometheus and to whoever asks
// over HTTP whether it is ready.
//
// It keeps no counters: each scrape asks the instance for its status, so that
// metrics cost the traffic nothing. It never listens by itself, it is handed a
// listener.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// Instance is what a scrape asks. Its methods are called from many goroutines
// at once.
type Instance interface {
	Status() status.Status
}

// registry holds the metrics of instance, of the Go runtime and of the process.
func registry(instance Instance) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collector{instance},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}
