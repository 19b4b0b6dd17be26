package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// reloadTimeout is how long a reload may take, with those that come before it.
const reloadTimeout = time.Minute

func newReload() *cobra.Command {
	c := change[status.Reload]{timeout: reloadTimeout, do: (*control.Client).Reload, print: printReload}
	return c.command(&cobra.Command{
		Use:   "reload",
		Short: "Put the changed configuration into service",
		Long: `Has the running instance read its configuration again, and says what became of
each listening socket when that is in service. Connections are not touched: those
of a listener that is gone get drain_timeout to end.

If anything is wrong with the configuration the instance stays as it is, and all
that is wrong is listed. The exit code is 1 then, and 7 if no instance runs.`,
	})
}

// printReload lists what is not as it was, and counts the rest.
func printReload(w io.Writer, done status.Reload) error {
	t := newTable(w)
	for _, c := range done.Changes {
		if c.Change != status.Kept {
			t.row(string(c.Change), printable(c.Socket), printable(strings.Join(c.Names, ",")))
		}
	}
	t.flush()
	var parts []string
	for _, c := range done.Counts() {
		parts = append(parts, fmt.Sprintf("%d %s", c.Sockets, c.Kind))
	}
	_, err := fmt.Fprintf(w, "generation %d: %s\n", done.Generation, strings.Join(parts, ", "))
	return err
}
