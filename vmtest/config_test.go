package vmtest_test

import (
	"fmt"
	"strings"
	"time"
)

// Addresses of the scenarios.
const (
	app = "tcp://127.0.0.1:9000" // the echo server
	web = "tcp://127.0.0.1:8080" // the port of holdfast.socket
)

// webToApp is a configuration with one listener, which opens these addresses
// beside the sockets of a socket unit. Connections get little time to end, since
// most scenarios do not wait for them. Other settings of [global] go over it by the
// environment, with a DropIn of "[Service]\nEnvironment=HOLDFAST_GLOBAL_ACCESS_LOG=true\n".
func webToApp(listen ...string) string { return webToAppDraining(500*time.Millisecond, listen...) }

func webToAppDraining(drain time.Duration, listen ...string) string {
	addresses := ""
	if len(listen) > 0 {
		addresses = fmt.Sprintf("listen = [\"%s\"]", strings.Join(listen, `", "`))
	}
	return fmt.Sprintf(`
[global]
drain_timeout = "%v"
[listener.web]
upstream = "app"
%s
[upstream.app]
servers = "%s"
`, drain, addresses, app)
}
