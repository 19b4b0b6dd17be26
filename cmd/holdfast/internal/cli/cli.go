// Package cli is the command line: one file for each verb, which reads its
// flags, has another package do the work, and prints.
//
// What a command says is for people unless --json asks otherwise. Errors go to
// standard error as "error: …", with "hint: …" below where it is known what to
// do. The exit codes are those of the Linux Standard Base, see exit.go.
package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// Main runs the command that the arguments of the process name and returns its
// exit code.
func Main() int {
	err := newRoot().Execute()
	printError(os.Stderr, err)
	return exitCode(err)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "A proxy that never lets go of a connection",
		Long:  "Holdfast proxies TCP and Unix stream connections on Linux.",
		Example: `  holdfast serve --demo
  holdfast serve --listen tcp://:8080 --upstream tcp://127.0.0.1:9000
  holdfast serve --config ` + config.DefaultPath,
		Args:              needVerb,
		RunE:              func(*cobra.Command, []string) error { return nil }, // needVerb refuses all
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},

		SuggestionsMinimumDistance: 2,
	}
	// A usage line of its own is for verbs; the root has a RunE only to be checked.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if .HasParent}}", 1))
	root.SetFlagErrorFunc(usage)
	b := thisBuild()
	root.Version = b.Version
	root.SetVersionTemplate(b.text())
	root.SetHelpCommand(newHelp())
	root.AddCommand(newServe(), newCheck(), newReload(), newUpgrade(), newDrain(), newAdopt(), newThaw(), newKeep(), newStatus(), newVersion(), newCompletion())
	return root
}
