package cli

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/proxy/status"
)

func busy() status.Status {
	return status.Status{
		Version: "1.2.3", PID: 4711, Generation: 3, State: status.Running, Keep: "connections", Holder: "systemd",
		StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local),
		Listeners: status.Listeners{
			LastError: "listener alt (tcp 127.0.0.1:8090): address already in use",
			Sockets: []status.Socket{
				{Socket: "tcp 127.0.0.1:8080", Names: []string{"web"}, State: "active", Origin: "systemd", Connections: 12, Accepted: 4711},
				{Socket: "unix /run/holdfast/web.sock", Names: []string{"api", "web"}, State: "draining", Origin: "bind", Connections: 3, Accepted: 5, Paused: true},
			},
		},
		Upstreams: []status.Upstream{
			{Name: "app", Servers: []status.Server{
				{Address: "tcp://127.0.0.1:9000", Healthy: true, Connections: 15},
				{Address: "unix:///run/app.sock", LastError: "connection refused"},
			}},
			{Name: "db", Servers: []status.Server{{Address: "tcp://db:5432", Healthy: true}}},
		},
		Connections: status.Connections{Active: 15, Accepted: 4716, Restored: 9, Failed: 1, BytesIn: 1 << 40, BytesOut: 1536, Unlogged: 4, Kept: 12, Unkept: 3, Lost: 2, RestorePause: 16.2},
		Handover:    status.Handover{Last: "process 12 (holdfast)", LastError: "broken pipe"},
	}
}

func render(t *testing.T, s status.Status, p palette) string {
	t.Helper()
	var page bytes.Buffer
	require.NoError(t, printStatus(&page, s, s.StartedAt.Add(2*time.Hour+3*time.Second), p))
	return page.String()
}

func TestStatusForPeople(t *testing.T) {
	assert.Equal(t, strings.TrimPrefix(`
holdfast     1.2.3, running, pid 4711
since        2026-01-02 03:04:05 (2h0m3s)
generation   3, holder systemd
connections  15 active, 4716 accepted, 9 restored, 1 failed
kept         12, 3 not, 2 lost, restored in 17 ms
traffic      1.0 TiB in, 1.5 KiB out
log          4 lines dropped
last change  listener alt (tcp 127.0.0.1:8090): address already in use
handover     took over from process 12 (holdfast)
handover     upgrade failed: broken pipe

SOCKET                       LISTENER  STATE             ORIGIN   ACTIVE  ACCEPTED
tcp 127.0.0.1:8080           web       active            systemd  12      4711
unix /run/holdfast/web.sock  api,web   draining, paused  bind     3       5

UPSTREAM  SERVER                HEALTH  ACTIVE  LAST ERROR
app       tcp://127.0.0.1:9000  up      15
app       unix:///run/app.sock  down    0       connection refused
db        tcp://db:5432         up      0
`, "\n"), render(t, busy(), palette{}))
}

func TestTheExampleInTheDocumentIsWhatStatusPrints(t *testing.T) {
	s := status.Status{
		Version: "1.0.0", PID: 4711, Generation: 1, State: status.Running, Keep: "connections", Holder: status.HolderSystemd,
		StartedAt: time.Date(2026, 11, 30, 2, 49, 30, 0, time.Local),
		Listeners: status.Listeners{Sockets: []status.Socket{
			{Socket: "tcp 127.0.0.1:8080", Names: []string{"web"}, State: status.SocketActive, Origin: "systemd", Connections: 2, Accepted: 312, Paused: true},
			{Socket: "unix /run/web.sock", Names: []string{"web"}, State: status.SocketActive, Origin: "bind", Accepted: 7},
		}},
		Upstreams: []status.Upstream{{Name: "app", Servers: []status.Server{
			{Address: "tcp://127.0.0.1:9000", Healthy: true, Connections: 2},
			{Address: "tcp://127.0.0.1:9001", LastError: "connection refused"},
			{Address: "tcp://nosuch.invalid:9000", LastError: "no such host"},
		}}},
		Connections: status.Connections{Active: 2, Accepted: 319, Failed: 1, BytesIn: 3 << 19, BytesOut: 2 << 30, Kept: 2, Restored: 1, RestorePause: 23.4},
	}
	text, err := os.ReadFile("../../../../docs/operations.md")
	require.NoError(t, err)
	assert.Contains(t, string(text), "```\n"+render(t, s, palette{})+"```\n")
}

func TestColoursMoveNothing(t *testing.T) {
	plain, coloured := render(t, busy(), palette{}), render(t, busy(), palette{on: true})
	assert.Contains(t, coloured, "\x1b[32mactive\x1b[39m")
	assert.Contains(t, coloured, "\x1b[31mdown\x1b[39m")
	assert.Equal(t, plain, regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(coloured, ""))
}

func TestStatusOfNothingHasNoEmptyTables(t *testing.T) {
	page := render(t, status.Status{State: status.Starting}, palette{})
	assert.NotContains(t, page, "SOCKET")
	assert.NotContains(t, page, "UPSTREAM")
}

func TestWhereNobodyKeepsNothingIsShortOfRoom(t *testing.T) {
	s := busy()
	s.Holder, s.Connections.Kept, s.Connections.Unkept = status.HolderNone, 0, 15
	page := render(t, s, palette{})
	assert.Contains(t, page, "kept         none: nobody keeps them (holdfast keep, or a unit of systemd)\n")
	assert.NotContains(t, page, "15 not")
}

func TestStatusCannotMoveTheCursor(t *testing.T) {
	s := busy()
	s.Version, s.State = "\x1b[2J", "\x1b]0;title\a"
	s.Listeners.Sockets[0].Socket = "unix /run/a\tb\n.sock"
	s.Listeners.Sockets[0].State = "\x1b"
	s.Upstreams[0].Servers[0].LastError = "\r\x9b"
	page := render(t, s, palette{})
	assert.NotRegexp(t, "[\x00-\x09\x0b-\x1f\u0080-\u009f]", page)
	assert.Contains(t, page, "unix /run/a\uFFFDb\uFFFD.sock")
}

func TestSizes(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 1<<63 - 1: "8.0 EiB",
	} {
		assert.Equal(t, want, size(bytes))
	}
}
