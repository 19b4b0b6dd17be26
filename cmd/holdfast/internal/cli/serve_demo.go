package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// demoListen is where the demo listens if no flag says otherwise.
const demoListen = "tcp://127.0.0.1:8080"

// serveDemo is serve with an upstream of our own, which ends after the daemon.
func serveDemo(ctx context.Context, flags serveFlags) error {
	upstream, stop := context.WithCancel(ctx)
	defer stop()
	address, wait, err := demo.Start(upstream)
	if err != nil {
		return err
	}
	if len(flags.over.Listen) == 0 {
		flags.over.Listen = []string{demoListen}
		fmt.Fprintln(os.Stderr, "demo: open http://127.0.0.1:8080/ in a browser, or curl it; Ctrl-C stops")
	}
	flags.over.Upstream = address.String()
	flags.over.DrainTimeout = "0" // an open page would hold up the stop for a minute
	err = serve(flags, config.Source{Environ: os.Environ(), Overrides: flags.over})
	stop()
	return errors.Join(err, wait())
}
