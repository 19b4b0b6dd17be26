package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

func newCheck() *cobra.Command {
	var (
		file   string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Validate a configuration without touching a socket",
		Long:  "Loads a configuration as serve would, the environment included, and lists all that is wrong with it.",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			source := config.Source{File: file, FileOptional: !cmd.Flags().Changed("config"), Environ: os.Environ()}
			inputs, err := source.Read(cmd.Context())
			var loaded *config.Config
			if err == nil {
				loaded, err = inputs.Parse()
			}
			if asJSON {
				return checkJSON(cmd, err)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok, %s, %s\n", cmp.Or(inputs.Path(), "environment"),
				plural(len(loaded.Listeners), "listener"), plural(len(loaded.Upstreams), "upstream"))
			return err
		},
	}
	configFlag(cmd, &file)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// checked is the answer of check --json.
type checked struct {
	OK       bool      `json:"ok"`
	Problems []problem `json:"problems"`
}

// problem is a config.Problem; zero values mean the same.
type problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Key     string `json:"key"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

func checkJSON(cmd *cobra.Command, err error) error {
	answer := checked{OK: err == nil, Problems: []problem{}}
	var bad *config.Error
	if errors.As(err, &bad) {
		for _, p := range bad.Problems {
			answer.Problems = append(answer.Problems, problem{p.File, p.Line, p.Column, p.Key, p.Message, p.Hint})
		}
	}
	if err := json.NewEncoder(cmd.OutOrStdout()).Encode(answer); err != nil {
		return err
	}
	if err != nil {
		return &codedError{code: exitCode(err)}
	}
	return nil
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
