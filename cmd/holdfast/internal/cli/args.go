package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// needVerb refuses a command line on which cobra found no verb.
func needVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage(cmd, errors.New("no command"))
	}
	err := fmt.Errorf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w, did you mean %q?", err, near[0])
	}
	return usage(cmd, err)
}

// noArgs refuses arguments that are no flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("%s takes no argument, got %q", cmd.CommandPath(), args[0])
	if cmd.Flags().Lookup("config") != nil {
		err = fmt.Errorf("%w; a file is --config %s", err, args[0])
	}
	return usage(cmd, err)
}
