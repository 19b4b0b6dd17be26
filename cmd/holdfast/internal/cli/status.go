package cli

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/control"
)

// statusTimeout is how long an instance may take to say how it is.
const statusTimeout = 5 * time.Second

func newStatus() *cobra.Command {
	var (
		socket string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the running instance does",
		Long: `Shows the listeners, upstreams and connections of the running instance.
The exit code is 3 if there is none.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if socket == "" {
				socket = config.FindControlSocket(os.Environ())
			}
			return runStatus(cmd, control.NewClient(socket), asJSON)
		},
	}
	controlFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func runStatus(cmd *cobra.Command, client *control.Client, asJSON bool) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), statusTimeout)
	defer cancel()
	if asJSON {
		answer, err := client.StatusJSON(ctx)
		if err != nil {
			return statusError(err)
		}
		_, err = cmd.OutOrStdout().Write(answer)
		return err
	}
	answer, err := client.Status(ctx)
	if err != nil {
		return statusError(err)
	}
	return printStatus(cmd.OutOrStdout(), answer, time.Now(), colours(os.Stdout, os.Environ()))
}

// statusError gives "not running" the exit code that it has for status.
func statusError(err error) error {
	if errors.Is(err, control.ErrNotRunning) {
		return &codedError{code: exitStatusNotRunning, err: err, hint: notRunningHint}
	}
	return err
}
