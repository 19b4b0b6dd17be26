package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// statusLine is what "systemctl status" shows of the instance.
func (d *daemon) statusLine() string {
	s := d.engine.Status()
	line := fmt.Sprintf("generation %d: %s, %s", s.Generation, countOf(len(s.Listeners.Sockets)-drainingSockets(s), "socket"), countOf(int(s.Connections.Active), "connection"))
	if n := drainingSockets(s); n > 0 {
		line += fmt.Sprintf(", %s draining", countOf(n, "socket"))
	}
	if s.Listeners.LastError != "" {
		first, _, _ := strings.Cut(s.Listeners.LastError, "\n")
		line += "; last change refused: " + first
	}
	return line
}

// stopLine is what it shows while the instance stops. Connections have time until drain
// ends.
func (d *daemon) stopLine(drain context.Context) string {
	active, _ := d.engine.Connections()
	line := "stopping: " + countOf(int(active), "connection") + " left"
	if until, limited := drain.Deadline(); limited && drain.Err() == nil {
		line += fmt.Sprintf(", %s at most", time.Until(until).Round(time.Second))
	}
	return line
}

func drainingSockets(s status.Status) int {
	n := 0
	for _, l := range s.Listeners.Sockets {
		if l.State == status.SocketDraining {
			n++
		}
	}
	return n
}

func countOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
