package demo

import (
	"fmt"
	"net/http"
	"time"
)

// stream is GET /stream: server-sent events that count the seconds of this
// connection, until the client leaves or the server stops.
func stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flush := http.NewResponseController(w)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for second := 0; ; second++ {
		if _, err := fmt.Fprintf(w, "data: %d\n\n", second); err != nil {
			return
		}
		if err := flush.Flush(); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}
