package metrics

import (
	"fmt"
	"net/http"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// ready is GET /ready: 200 while the instance accepts connections, else 503, so
// that a load balancer sends new clients elsewhere. The body is the state.
func ready(instance Instance) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		state := instance.Status().State
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if state != status.Running {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprintln(w, state) // a failed write: the client has left
	}
}
