package bench

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/testbed"
)

// peer is a proxy under measurement. start runs it from one address of loopback
// to another and may return before it listens.
type peer struct {
	name  string
	start func(b *testing.B, listen, server string) *testbed.Process
}

// Each config is the least that relays one TCP port, with a thread or worker per
// core and time limits that no measurement reaches.
var (
	// Its connections outlive its process, as by default under systemd, too.
	holdfast = peer{"holdfast", func(b *testing.B, listen, server string) *testbed.Process {
		return startKept(b, "connections", listen, server).Process
	}}
	unkept = peer{"unkept", func(b *testing.B, listen, server string) *testbed.Process {
		return startKept(b, "listeners", listen, server).Process
	}}
	haproxy = peer{"haproxy", startHAProxy("")}
	// "option splice-auto" never splices here; told to, HAProxy 2.6 takes a third
	// less CPU for bulk.
	haproxySplice = peer{"haproxy+splice", startHAProxy("option splice-response")}
	nginx         = peer{"nginx", func(b *testing.B, listen, server string) *testbed.Process {
		return testbed.StartNginx(b, fmt.Sprintf(`
load_module /usr/lib/nginx/modules/ngx_stream_module.so;
worker_processes %d;
worker_rlimit_nofile 20000;
error_log stderr;
events { worker_connections 20000; }
stream {
    server {
        listen %s;
        proxy_pass %s;
        proxy_timeout 1h;
    }
}
`, runtime.NumCPU(), testbed.HostPort(listen), testbed.HostPort(server)))
	}}
	socketProxyd = peer{"socket-proxyd", func(b *testing.B, listen, server string) *testbed.Process {
		return testbed.StartSocketProxyd(b, listen, server)
	}}
)

// startKept starts Holdfast under a keeper, with a setting of keep.
func startKept(b *testing.B, keep, listen, server string) *testbed.Holdfast {
	return testbed.StartHoldfastUnder(b, testbed.Config{
		Global: "drain_timeout = \"0\"\nkeep = \"" + keep + "\"",
		Routes: []testbed.Route{{Name: "bench", Listen: []string{listen}, Servers: []string{server}}},
	}, testbed.Binary, "keep", "--")
}

func startHAProxy(option string) func(b *testing.B, listen, server string) *testbed.Process {
	return func(b *testing.B, listen, server string) *testbed.Process {
		return testbed.StartHAProxy(b, fmt.Sprintf(`
global
    nbthread %d
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    %s
listen bench
    bind %s
    server s %s
`, runtime.NumCPU(), option, testbed.HostPort(listen), testbed.HostPort(server)))
	}
}
