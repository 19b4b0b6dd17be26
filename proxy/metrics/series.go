package metrics

import (
	"strings"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// One series twice would fail the whole scrape, so what has the same labels is
// added up: sockets of one address in two network namespaces, or a server that
// an upstream lists twice for a double share.

type socketLabels struct {
	listener string // several names of one socket are joined by commas
	socket   string
}

// sockets adds up the sockets of each series. One that accepts makes the sum
// active and not paused.
func sockets(s status.Status) map[socketLabels]status.Socket {
	sums := make(map[socketLabels]status.Socket, len(s.Listeners.Sockets))
	for _, socket := range s.Listeners.Sockets {
		at := socketLabels{label(strings.Join(socket.Names, ",")), label(socket.Socket)}
		sum, known := sums[at]
		if !known {
			sums[at] = socket
			continue
		}
		sum.Connections += socket.Connections
		sum.Accepted += socket.Accepted
		sum.Paused = sum.Paused && socket.Paused
		if socket.State == status.SocketActive {
			sum.State = status.SocketActive
		}
		sums[at] = sum
	}
	return sums
}

type serverLabels struct{ upstream, server string }

// servers adds up the servers of each series. One healthy entry makes the sum
// healthy.
func servers(s status.Status) map[serverLabels]status.Server {
	sums := make(map[serverLabels]status.Server)
	for _, upstream := range s.Upstreams {
		for _, server := range upstream.Servers {
			at := serverLabels{label(upstream.Name), label(server.Address)}
			sum, known := sums[at]
			if !known {
				sums[at] = server
				continue
			}
			sum.Connections += server.Connections
			sum.Healthy = sum.Healthy || server.Healthy
			sums[at] = sum
		}
	}
	return sums
}
