package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// drainTimeout is longer than anybody waits: drain_timeout may be "never".
const drainTimeout = 365 * 24 * time.Hour

func newDrain() *cobra.Command {
	c := change[status.Drain]{timeout: drainTimeout, do: (*control.Client).Drain, print: printDrain}
	return c.command(&cobra.Command{
		Use:   "drain",
		Short: "End the connections that are there, and go on serving",
		Long: `Has the running instance end the connections that it has now, evenly over drain_timeout,
so that their clients do not all come back at once, and returns when the last one has
ended. With "never" they end by themselves. Clients who come meanwhile are served, and
stay: after a reload with another upstream, this moves everybody there.

An idle connection is ended in order; one on which something is under way is reset.
Interrupted, the command leaves the rest as they are.`,
	})
}

func printDrain(w io.Writer, done status.Drain) error {
	_, err := fmt.Fprintf(w, "%s ended\n", plural(int(done.Connections), "connection"))
	return err
}
