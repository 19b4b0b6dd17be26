package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/daemon"
)

func newAdopt() *cobra.Command {
	var (
		flags     serveFlags
		adopt     daemon.Adopt
		listeners []string
		stop      string
	)
	cmd := &cobra.Command{
		Use:   "adopt --pid N",
		Short: "Serve with the listening sockets of another program that runs",
		Long: `Is a serve that takes its listening sockets out of a running program, such as nginx or
HAProxy, with who waits in their queues. That program does not take part and does not
notice: both serve from then on, each client goes to who accepts first, and when one of
them ends the other has all of them. Nobody is refused.

It takes what the configuration listens on and the program has, at least one socket;
with --listener just those, or it fails. What the program has not is opened as serve
does. With --stop the program is asked to stop once this one serves: its connections are
its own, so give the signal that has them end in order. Its end is in the log.

  nginx     --pid $(cat /run/nginx.pid) --stop=QUIT
  HAProxy   --stop=USR1, and the process that has the sockets, with -W a worker

It takes the right to trace the program: its user, or root. Without --stop a program
that waits in accept(2) is refused: it could not go on.

An instance of this program is taken over from by holdfast serve --takeover=always.`,
		Example: `  holdfast adopt --pid $(cat /run/nginx.pid) --stop=QUIT
  holdfast adopt --pid 4711 --listener web --listener api=unix:///run/api.sock
  holdfast adopt --pid 4711 --upstream 127.0.0.1:9000 --listen tcp://127.0.0.1:80`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.Flags().Changed("stop") {
				return usage(cmd, fmt.Errorf("write --stop=%s: a signal that is not TERM goes with it by =", args[0]))
			}
			return noArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if adopt.PID <= 0 {
				return usage(cmd, errors.New("--pid names the process, a number above 0"))
			}
			if err := flags.check(cmd); err != nil {
				return err
			}
			var err error
			if adopt.Stop, err = parseSignal(stop); err != nil {
				return usage(cmd, err)
			}
			adopt.Listeners, flags.over.Adopted = parseAdopted(listeners)
			source, err := flags.source(cmd)
			if err != nil {
				return err
			}
			flags.adopt = &adopt
			return serve(flags, source)
		},
	}
	f := cmd.Flags()
	f.IntVar(&adopt.PID, "pid", 0, "`NUMBER` of the process that has the sockets")
	f.StringArrayVar(&listeners, "listener", nil, "`NAME[=ADDRESS]` of a listener that gets a socket of the process, the one at its\nown address or at that one (repeatable)")
	f.StringVar(&stop, "stop", "", "ask the process to stop once its sockets are served, by `SIGNAL`")
	f.Lookup("stop").NoOptDefVal = "TERM"
	f.StringVar(&flags.takeover, "takeover", string(daemon.TakeoverNever), "")
	must(f.MarkHidden("takeover")) // an upgrade starts the same command with it
	flags.overrides(cmd)
	return cmd
}

// parseSignal knows signals by their names, with or without SIG. "" is none.
func parseSignal(name string) (unix.Signal, error) {
	if name == "" {
		return 0, nil
	}
	upper := strings.ToUpper(name)
	if !strings.HasPrefix(upper, "SIG") {
		upper = "SIG" + upper
	}
	number := unix.SignalNum(upper)
	if number == 0 {
		return 0, fmt.Errorf("--stop is the name of a signal such as TERM or QUIT, not %q", name)
	}
	return number, nil
}

// parseAdopted gives the names of listeners, and the addresses that they have for it.
func parseAdopted(listeners []string) (names []string, addresses map[string][]string) {
	addresses = map[string][]string{}
	for _, l := range listeners {
		name, address, found := strings.Cut(l, "=")
		if _, known := addresses[name]; !known {
			names = append(names, name)
			addresses[name] = nil
		}
		if found {
			addresses[name] = append(addresses[name], address)
		}
	}
	return names, addresses
}
