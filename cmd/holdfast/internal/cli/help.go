package cli

import "github.com/spf13/cobra"

// newHelp is cobra's own, which ends well for what is no command.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			of, rest, err := root.Find(args)
			if err != nil || of == root && len(rest) > 0 {
				return needVerb(root, args)
			}
			return of.Help()
		},
	}
}
