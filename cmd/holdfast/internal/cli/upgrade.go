package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/control"
)

// upgradeTimeout is how long an upgrade may take; the instance gives up before.
const upgradeTimeout = 90 * time.Second

func newUpgrade() *cobra.Command {
	var (
		socket string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Let the installed version take over from the running one",
		Long: `Has the running instance start its program anew, as it is installed now and with the
same arguments, and returns when the new process has taken over. It gets the listening
sockets with who waits in their queues, and reads the configuration as it is now: no
client is refused. The old process goes on with its connections, ends them one by one
over drain_timeout, and exits with the last one.

If the new process cannot start, is killed, or does not take over within a minute, the
old one goes on as it was. The exit code is 1 then, and 7 if no instance runs. USR2 to
the running process does the same, and the log says how it went.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if socket == "" {
				socket = config.FindControlSocket(os.Environ())
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), upgradeTimeout, fmt.Errorf("not done within %v", upgradeTimeout))
			defer cancel()
			done, err := control.NewClient(socket).Upgrade(ctx)
			var refused *control.RefusedError
			switch {
			case asJSON && errors.As(err, &refused):
				return printRefusal(cmd.OutOrStdout(), refused)
			case err != nil:
				return err
			case asJSON:
				return json.NewEncoder(cmd.OutOrStdout()).Encode(done)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "process %d has taken over from %d\n", done.PID, done.Former)
			return err
		},
	}
	controlFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}
