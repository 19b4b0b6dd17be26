package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// shells are those that cobra writes completions for.
var shells = map[string]func(root *cobra.Command, w io.Writer) error{
	"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
	"zsh":        func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) },
	"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
	"powershell": func(root *cobra.Command, w io.Writer) error { return root.GenPowerShellCompletionWithDesc(w) },
}

func newCompletion() *cobra.Command {
	names := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion " + strings.Join(names, "|"),
		Short: "Print a completion script for a shell",
		Long: `Prints a script that completes commands and flags. For bash, for example:

  source <(holdfast completion bash)`,
		ValidArgs: names,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(names, args[0]) {
				return usage(cmd, fmt.Errorf("completion takes one of %s", strings.Join(names, ", ")))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return shells[args[0]](cmd.Root(), cmd.OutOrStdout())
		},
	}
}
