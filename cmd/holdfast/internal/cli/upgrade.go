package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// upgradeTimeout is how long an upgrade may take; the instance gives up before.
const upgradeTimeout = 90 * time.Second

func newUpgrade() *cobra.Command {
	c := change[status.Upgrade]{timeout: upgradeTimeout, do: (*control.Client).Upgrade, print: printUpgrade}
	return c.command(&cobra.Command{
		Use:   "upgrade",
		Short: "Let the installed version take over from the running one",
		Long: `Has the running instance start its program anew, as it is installed now and with the
same arguments, and returns when the new process has taken over. It gets the listening
sockets with who waits in their queues, and the connections, and reads the
configuration as it is now: no client is refused or cut. With keep = "listeners" the old
process goes on with its connections, ends them one by one over drain_timeout, and exits
with the last one.

If the new process cannot start, is killed, or does not take over within a minute, the
old one goes on as it was. The exit code is 1 then, and 7 if no instance runs. USR2 to
the running process does the same, and the log says how it went.`,
	})
}

func printUpgrade(w io.Writer, done status.Upgrade) error {
	_, err := fmt.Fprintf(w, "process %d has taken over from %d\n", done.PID, done.Former)
	return err
}
