package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/daemon"
	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// logLevels are the values of --log-level.
var logLevels = []string{string(config.LogDebug), string(config.LogInfo), string(config.LogWarn), string(config.LogError)}

// takeovers are the values of --takeover.
var takeovers = []string{string(daemon.TakeoverAuto), string(daemon.TakeoverAlways), string(daemon.TakeoverNever)}

// serveFlags is what the command line of serve, or of adopt, says.
type serveFlags struct {
	file     string
	over     config.Overrides
	demo     bool
	takeover string
	adopt    *daemon.Adopt // nil = none; of adopt alone
}

func newServe() *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Proxy connections until told to stop",
		Long: `Proxies connections as the configuration says, and the flags over it. The default
file may be missing if --upstream is given and sockets come from --listen or from a
systemd socket unit; one that --config names has to be there.

HUP puts the changed configuration into service, as holdfast reload does. TERM and
INT stop: open connections get drain_timeout to end, a second signal ends them at
once. USR2 lets the installed version take over, as holdfast upgrade does.

Where an instance runs already, with the same handover socket, this one takes over from
it without refusing a client; see --takeover.`,
		Example: `  holdfast serve --demo
  holdfast serve --listen tcp://:8080 --upstream tcp://127.0.0.1:9000`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(cmd); err != nil {
				return err
			}
			source, err := flags.source(cmd)
			if err != nil {
				return err
			}
			if flags.demo {
				if !cmd.Flags().Changed("takeover") {
					flags.takeover = string(daemon.TakeoverNever) // a demonstration ends no service
				}
				return serveDemo(cmd.Context(), flags)
			}
			return serve(flags, source)
		},
	}
	flags.overrides(cmd)
	f := cmd.Flags()
	f.StringVar(&flags.takeover, "takeover", takeovers[0], "`WHEN` to take over from a running instance: auto, if one answers at the handover\nsocket; always, or fail; never")
	f.BoolVar(&flags.demo, "demo", false, "read no file: proxy "+demoListen+" to a small web server of our own, which ends with\nthis process; takes over from nobody")
	must(cmd.RegisterFlagCompletionFunc("takeover", cobra.FixedCompletions(takeovers, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// overrides adds --config, and the flags that go over what the file says.
func (f *serveFlags) overrides(cmd *cobra.Command) {
	configFlag(cmd, &f.file)
	set := cmd.Flags()
	set.StringArrayVar(&f.over.Listen, "listen", nil, "`ADDRESS` to listen on, such as tcp://:8080 or unix:///run/x.sock (repeatable)")
	set.StringVar(&f.over.Upstream, "upstream", "", "`ADDRESS` of the server to connect to")
	set.StringVar(&f.over.ControlSocket, "control-socket", "", "`PATH` of the socket that status asks")
	set.StringVar(&f.over.HandoverSocket, "handover-socket", "", "`PATH` of the socket by which another process takes over")
	set.StringVar(&f.over.LogLevel, "log-level", "", "least `LEVEL` to log: debug, info, warn or error")
	must(cmd.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions(logLevels, cobra.ShellCompDirectiveNoFileComp)))
}

// source is where the configuration comes from.
func (f *serveFlags) source(cmd *cobra.Command) (config.Source, error) {
	err := errors.Join(absolute(&f.over.ControlSocket), absolute(&f.over.HandoverSocket))
	return config.Source{
		File:         f.file,
		FileOptional: !cmd.Flags().Changed("config"),
		Environ:      os.Environ(),
		Overrides:    f.over,
	}, err
}

// check refuses flags that contradict each other.
func (f serveFlags) check(cmd *cobra.Command) error {
	if f.over.LogLevel != "" && !slices.Contains(logLevels, f.over.LogLevel) {
		return usage(cmd, fmt.Errorf("--log-level is one of %q, not %q", logLevels, f.over.LogLevel))
	}
	if !slices.Contains(takeovers, f.takeover) {
		return usage(cmd, fmt.Errorf("--takeover is one of %q, not %q", takeovers, f.takeover))
	}
	if !f.demo {
		return nil
	}
	for _, name := range []string{"config", "upstream"} {
		if cmd.Flags().Changed(name) {
			return usage(cmd, fmt.Errorf("--demo brings its own upstream, it does not go with --%s", name))
		}
	}
	return nil
}

// serve runs the daemon on source until it has stopped.
func serve(flags serveFlags, source config.Source) error {
	return daemon.Run(daemon.Options{
		Source: source, Version: thisBuild().Version, Takeover: daemon.Takeover(flags.takeover), Adopt: flags.adopt,
	})
}
