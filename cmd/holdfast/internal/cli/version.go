package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker for a release:
// -X github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/cli.version=1.2.3
var version string

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(b)
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), b.text())
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// build says which build this is.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"` // "" = not known; ends in "-dirty" if files were changed
	Go      string `json:"go"`
}

func (b build) text() string {
	return fmt.Sprintf("holdfast %s (commit %s, %s)\n", b.Version, cmp.Or(b.Commit, "unknown"), b.Go)
}

func thisBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return describe(version, info)
}

func describe(version string, info *debug.BuildInfo) build {
	b := build{Version: version, Go: info.GoVersion}
	if b.Version == "" {
		b.Version = info.Main.Version // of `go install module@version`
	}
	dirty := ""
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.modified":
			if setting.Value == "true" {
				dirty = "-dirty"
			}
		}
	}
	if b.Commit != "" {
		b.Commit = b.Commit[:min(12, len(b.Commit))] + dirty
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	return b
}
