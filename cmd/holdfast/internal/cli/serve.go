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

// serveFlags is what the command line of serve says.
type serveFlags struct {
	file     string
	over     config.Overrides
	demo     bool
	takeover string
}

func newServe() *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Proxy connections until told to stop",
		Long: `Proxies connections as the configuration says, and the flags over it. The file
may be missing if --upstream is given and sockets come from --listen or from a
systemd socket unit.

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
			if err := errors.Join(absolute(&flags.over.ControlSocket), absolute(&flags.over.HandoverSocket)); err != nil {
				return err
			}
			if flags.demo {
				return serveDemo(cmd.Context(), flags)
			}
			return serve(flags, config.Source{
				File:         flags.file,
				FileOptional: !cmd.Flags().Changed("config"),
				Environ:      os.Environ(),
				Overrides:    flags.over,
			})
		},
	}
	configFlag(cmd, &flags.file)
	f := cmd.Flags()
	f.StringArrayVar(&flags.over.Listen, "listen", nil, "`ADDRESS` to listen on, such as tcp://:8080 or unix:///run/x.sock (repeatable)")
	f.StringVar(&flags.over.Upstream, "upstream", "", "`ADDRESS` of the server to connect to")
	f.StringVar(&flags.over.ControlSocket, "control-socket", "", "`PATH` of the socket that status asks")
	f.StringVar(&flags.over.HandoverSocket, "handover-socket", "", "`PATH` of the socket by which another process takes over")
	f.StringVar(&flags.over.LogLevel, "log-level", "", "least `LEVEL` to log: debug, info, warn or error")
	f.StringVar(&flags.takeover, "takeover", takeovers[0], "`WHEN` to take over from a running instance: auto, if one answers at the handover\nsocket; always, or fail; never")
	f.BoolVar(&flags.demo, "demo", false, "read no file: proxy "+demoListen+" to a small web server of our own")
	must(cmd.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions(logLevels, cobra.ShellCompDirectiveNoFileComp)))
	must(cmd.RegisterFlagCompletionFunc("takeover", cobra.FixedCompletions(takeovers, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
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
	return daemon.Run(daemon.Options{Source: source, Version: thisBuild().Version, Takeover: daemon.Takeover(flags.takeover)})
}
