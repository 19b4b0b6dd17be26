package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// configFlag adds --config.
func configFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "config", config.DefaultPath, "configuration `FILE` (.toml, .yaml or .json)")
	must(cmd.MarkFlagFilename("config", "toml", "yaml", "yml", "json"))
}

// jsonFlag adds --json.
func jsonFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print JSON, for programs")
}

// must is for calls that fail only if the flag they name was not added.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// controlFlag adds --control-socket to a command that asks a running instance.
func controlFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "control-socket", "", "`PATH` of the instance's control socket (default: the first that exists of\n$RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/holdfast, /run/holdfast)")
	must(cmd.MarkFlagFilename("control-socket"))
}

// absolute makes the path of a socket absolute, as whoever typed it means it from
// where they are. What is no path is left for the config to refuse: it says why.
func absolute(path *string) error {
	if *path == "" || strings.HasPrefix(*path, "@") || strings.Contains(*path, "://") {
		return nil
	}
	abs, err := filepath.Abs(*path)
	if err != nil {
		return err
	}
	*path = abs
	return nil
}
