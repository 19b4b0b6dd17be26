package integration

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// Clients of these tests come from one of two loopback addresses.
const (
	trusted   = "127.0.0.2"
	untrusted = "127.0.0.3"
)

// TestServersLearnTheClientsAddress sends PROXY headers to nginx and HAProxy,
// which answer with the address that they were told.
func TestServersLearnTheClientsAddress(t *testing.T) {
	byNginx, byHAProxy := testbed.TCP(t), testbed.TCP(t)
	testbed.StartNginx(t, `
error_log stderr;
events {}
http {
    access_log off;
    server {
        listen `+testbed.HostPort(byNginx)+` proxy_protocol;
        location / { return 200 "$proxy_protocol_addr:$proxy_protocol_port"; }
    }
}`)
	testbed.StartHAProxy(t, haproxyDefaults+`
frontend answers
    mode http
    bind `+testbed.HostPort(byHAProxy)+` accept-proxy
    http-request return status 200 content-type text/plain lf-string %[src]:%[src_port]
`)
	testbed.Listening(t, byNginx)
	testbed.Listening(t, byHAProxy)
	var cfg testbed.Config
	for server, address := range map[string]string{"nginx": byNginx, "haproxy": byHAProxy} {
		for _, version := range []string{"v1", "v2"} {
			cfg.Routes = append(cfg.Routes, testbed.Route{
				Name: server + "-" + version, Listen: []string{testbed.TCP(t)}, Servers: []string{address},
				Upstream: "send_proxy = \"" + version + "\"",
			})
		}
	}
	testbed.StartHoldfast(t, cfg)
	for _, route := range cfg.Routes {
		t.Run(route.Name, func(t *testing.T) {
			out := curl(t, "-w", " %{local_ip}:%{local_port}", "http://"+testbed.HostPort(route.Listen[0]))
			told, own, _ := strings.Cut(out, " ")
			assert.Equal(t, own, told)
		})
	}
}

// TestAddressGoesThroughAChainOfProxies passes a client's address from HAProxy
// through Holdfast to HAProxy, with each pair of versions.
func TestAddressGoesThroughAChainOfProxies(t *testing.T) {
	last := testbed.TCP(t)
	var cfg testbed.Config
	haproxy := haproxyDefaults + `
frontend last
    mode http
    bind ` + testbed.HostPort(last) + ` accept-proxy
    http-request return status 200 content-type text/plain lf-string %[src]:%[src_port]
`
	first := map[string]string{}
	for in, option := range map[string]string{"v1": "send-proxy", "v2": "send-proxy-v2", "v2 with TLVs": "send-proxy-v2 proxy-v2-options unique-id,crc32c"} {
		for _, out := range []string{"v1", "v2"} {
			name := strings.ReplaceAll(in, " ", "-") + "-to-" + out
			route := testbed.Route{
				Name: name, Listen: []string{testbed.TCP(t)}, Servers: []string{last},
				Listener: "accept_proxy = true\ntrusted = [\"127.0.0.0/8\"]",
				Upstream: "send_proxy = \"" + out + "\"",
			}
			cfg.Routes = append(cfg.Routes, route)
			first[name] = testbed.TCP(t)
			haproxy += fmt.Sprintf(`
listen %s
    unique-id-format %%{+X}o\ %%ci:%%cp_%%fi:%%fp_%%Ts_%%rt:%%pid
    bind %s
    server holdfast %s %s
`, name, testbed.HostPort(first[name]), testbed.HostPort(route.Listen[0]), option)
		}
	}
	testbed.StartHAProxy(t, haproxy)
	testbed.StartHoldfast(t, cfg)
	for name, address := range first {
		t.Run(name, func(t *testing.T) {
			testbed.Listening(t, address)
			out := curl(t, "-w", " %{local_ip}:%{local_port}", "http://"+testbed.HostPort(address))
			told, own, _ := strings.Cut(out, " ")
			assert.Equal(t, own, told)
		})
	}
}

const haproxyDefaults = `
defaults
    mode tcp
    timeout connect 5s
    timeout client 30s
    timeout server 30s
`

// TestProxyHeadersOfClients sends headers good and bad, from a trusted and an
// untrusted address, over a dual-stack listener too, and reads at the server what
// it is told (in version 1) and what else it gets.
func TestProxyHeadersOfClients(t *testing.T) {
	const v1 = "PROXY TCP4 192.0.2.1 192.0.2.9 1111 2222\r\n"
	const signature = "\r\n\r\n\x00\r\nQUIT\n"
	const addresses = "\xc0\x00\x02\x01" + "\xc0\x00\x02\x09" + "\x04\x57" + "\x08\xae"
	const v2 = signature + "\x21\x11\x00\x0c" + addresses
	const v2Local = signature + "\x20\x11\x00\x0c" + addresses
	const v2TLVs = signature + "\x21\x11\x00\x17" + addresses + "\x04\x00\x03abc" + "\xee\x00\x02xy"
	const v1IPv6 = "PROXY TCP6 2001:db8::1 2001:db8::9 1111 2222\r\n"
	const told = v1
	cases := []struct {
		name, from, sent string
		want             string // with REAL for the header of the connection's own addresses
	}{
		{"version 1", trusted, v1, told},
		{"version 2", trusted, v2, told},
		{"IPv6", trusted, v1IPv6, v1IPv6},
		{"TLVs are skipped", trusted, v2TLVs, told},
		{"LOCAL means the connection's own addresses", trusted, v2Local, "REAL"},
		{"UNKNOWN likewise", trusted, "PROXY UNKNOWN\r\n", "REAL"},
		{"a header is data from a stranger", untrusted, v1, "REAL" + v1},
		{"and in version 2", untrusted, v2, "REAL" + v2},
	}

	server := testbed.TCP(t)
	accepted := make(chan stream, 16)
	serveTo(t, server, accepted)
	port := testbed.PortOf(testbed.TCP(t))
	route := testbed.Route{
		Name: "in", Listen: []string{testbed.TCP(t), "tcp://:" + port}, Servers: []string{server},
		Listener: "accept_proxy = true\ntrusted = [\"" + trusted + "/32\"]", Upstream: `send_proxy = "v1"`,
	}
	holdfast := testbed.StartHoldfast(t, testbed.Config{Routes: []testbed.Route{route}})
	listeners := map[string]string{"IPv4": route.Listen[0], "dual stack": "tcp://127.0.0.1:" + port}

	for kind, address := range listeners {
		for _, c := range cases {
			for _, pace := range []string{"at once", "byte by byte"} {
				t.Run(kind+"/"+c.name+"/"+pace, func(t *testing.T) {
					conn := dialFrom(t, c.from, address)
					const data = "data after the header\n"
					go send(conn, c.sent+data, pace)
					want := strings.Replace(c.want, "REAL", ownHeader(conn), 1) + data
					expect(t, next(t, accepted), want)
				})
			}
		}
	}
	for name, bad := range map[string]string{
		"no header":          "GET / HTTP/1.0\r\n\r\n",
		"cut short":          "PROXY TCP4 192.0.2.1",
		"not an address":     "PROXY TCP4 one two three four\r\n",
		"a line that is 200": "PROXY TCP4 " + strings.Repeat("1", 200) + "\r\n",
		"an unknown version": signature + "\x31\x11\x00\x0c" + addresses,
		"too short a length": signature + "\x21\x11\x00\x04" + addresses,
	} {
		t.Run("bad/"+name, func(t *testing.T) {
			before := holdfast.Status(t).Connections
			conn := dialFrom(t, trusted, route.Listen[0])
			_, err := io.WriteString(conn, bad)
			require.NoError(t, err)
			_ = conn.CloseWrite() // it may be reset already
			got, err := io.ReadAll(conn)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
			assert.Empty(t, got)
			testbed.EventuallyEqual(t, patience, "failed connections", before.Failed+1, func() int64 {
				return holdfast.Status(t).Connections.Failed
			})
			assert.Empty(t, accepted, "the server has seen nothing of it")
		})
	}
}

// TestALookThatSendsNothingIsNoBadHeader lets a load balancer see whether somebody
// listens.
func TestALookThatSendsNothingIsNoBadHeader(t *testing.T) {
	server := testbed.TCP(t)
	accepted := make(chan stream, 16)
	serveTo(t, server, accepted)
	route := testbed.Route{
		Name: "in", Listen: []string{testbed.TCP(t)}, Servers: []string{server},
		Listener: "accept_proxy = true\ntrusted = [\"127.0.0.0/8\"]",
	}
	holdfast := testbed.StartHoldfast(t, testbed.Config{Routes: []testbed.Route{route}})
	conn := dial(t, route.Listen[0])
	require.NoError(t, conn.CloseWrite())
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Empty(t, got)
	assert.Empty(t, accepted, "the server has seen nothing of it")
	assert.Zero(t, holdfast.Status(t).Connections.Failed)
}

// ownHeader is the version 1 header that tells the truth about a connection.
func ownHeader(conn net.Conn) string {
	from, to := conn.LocalAddr().(*net.TCPAddr), conn.RemoteAddr().(*net.TCPAddr)
	return fmt.Sprintf("PROXY TCP4 %s %s %d %d\r\n", from.IP, to.IP, from.Port, to.Port)
}

// send writes text whole, or each byte in a segment of its own.
func send(conn net.Conn, text, pace string) {
	if pace == "at once" {
		_, _ = io.WriteString(conn, text)
		return
	}
	for i := range len(text) { // Go sets TCP_NODELAY
		_, _ = io.WriteString(conn, text[i:i+1])
	}
}
