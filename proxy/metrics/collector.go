package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// All metrics of an instance. The values of labels come from the config, so
// their number is bounded; addresses of clients are never among them.
var (
	buildInfo  = desc("build_info", "Always 1; the labels say which build runs.", "version")
	stateNow   = desc("state", "1 for the state the instance is in, 0 for the others.", "state")
	holderNow  = desc("holder", "1 for who keeps sockets and connections when the process is gone, 0 for the others.", "holder")
	generation = desc("generation", "Number of the configuration in service.")
	startTime  = desc("start_time_seconds", "When the instance started, since the Unix epoch.")
	changeGood = desc("last_change_successful", "Whether the last change of the listeners succeeded.")

	connections  = desc("connections", "Client connections open now.")
	accepted     = desc("connections_accepted_total", "Client connections accepted.")
	restored     = desc("connections_restored_total", "Client connections taken over alive from an earlier process.")
	kept         = desc("connections_kept", "Client connections that outlive this process.")
	unkept       = desc("connections_unkept", "Client connections that end with this process, as there was no room to keep them.")
	lost         = desc("connections_lost_total", "Client connections of an earlier process that could not go on, and were reset.")
	restorePause = desc("connections_restore_pause_seconds", "For how long the connections of an earlier process stood still, since this one began, without the time in which there was no process. 0 = there were none.")
	failed       = desc("connections_failed_total", "Client connections that were reset before a server was reached: none in time, a bad PROXY header, no memory or descriptor.")
	received     = desc("client_received_bytes_total", "Bytes received from clients.")
	sent         = desc("client_sent_bytes_total", "Bytes sent to clients.")
	unlogged     = desc("log_lines_dropped_total", "Lines about connections that were dropped because the log could not keep up.")

	socketConnections = desc("listener_connections", "Client connections of the socket open now.", "listener", "socket")
	socketAccepted    = desc("listener_accepted_total", "Client connections accepted on the socket.", "listener", "socket")
	socketDraining    = desc("listener_draining", "Whether only connections of earlier configurations use the socket.", "listener", "socket")
	socketPaused      = desc("listener_paused", "Whether the socket does not accept for now because a limit is reached.", "listener", "socket")

	serverConnections = desc("upstream_connections", "Connections to the server open or being dialled now.", "upstream", "server")
	serverHealthy     = desc("upstream_healthy", "Whether the server is given connections.", "upstream", "server")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("holdfast_"+name, help, labels, nil)
}

// collector turns a status into metrics at the time of the scrape.
type collector struct {
	instance Instance
}

// Describe implements prometheus.Collector.
func (c collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		buildInfo, stateNow, holderNow, generation, startTime, changeGood,
		connections, accepted, restored, kept, unkept, lost, restorePause, failed, received, sent, unlogged,
		socketConnections, socketAccepted, socketDraining, socketPaused,
		serverConnections, serverHealthy,
	} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	count := func(d *prometheus.Desc, value int64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	s := c.instance.Status()

	gauge(buildInfo, 1, label(s.Version))
	for _, state := range []status.State{status.Starting, status.Running, status.Draining} {
		gauge(stateNow, truth(s.State == state), string(state))
	}
	for _, holder := range []string{status.HolderSystemd, status.HolderKeeper, status.HolderNone} {
		gauge(holderNow, truth(s.Holder == holder), holder)
	}
	gauge(generation, float64(s.Generation))
	gauge(startTime, float64(s.StartedAt.UnixMilli())/1e3)
	gauge(changeGood, truth(s.Listeners.LastError == ""))

	gauge(connections, float64(s.Connections.Active))
	count(accepted, s.Connections.Accepted)
	count(restored, s.Connections.Restored)
	gauge(kept, float64(s.Connections.Kept))
	gauge(unkept, float64(s.Connections.Unkept))
	count(lost, s.Connections.Lost)
	gauge(restorePause, s.Connections.RestorePause/1e3)
	count(failed, s.Connections.Failed)
	count(received, s.Connections.BytesIn)
	count(sent, s.Connections.BytesOut)
	count(unlogged, s.Connections.Unlogged)

	for at, socket := range sockets(s) {
		gauge(socketConnections, float64(socket.Connections), at.listener, at.socket)
		count(socketAccepted, socket.Accepted, at.listener, at.socket)
		gauge(socketDraining, truth(socket.State == status.SocketDraining), at.listener, at.socket)
		gauge(socketPaused, truth(socket.Paused), at.listener, at.socket)
	}
	for at, server := range servers(s) {
		gauge(serverConnections, float64(server.Connections), at.upstream, at.server)
		gauge(serverHealthy, truth(server.Healthy), at.upstream, at.server)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// label makes text fit for a label: paths of Unix sockets may be any bytes, and
// one label that is not UTF-8 would fail the whole scrape.
func label(text string) string {
	return strings.ToValidUTF8(text, "\uFFFD")
}
