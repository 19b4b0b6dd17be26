package cli

import (
	"errors"
	"io/fs"
	"log/slog"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-proxy/holdfast/activation"
	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/keeper"
	"github.com/holdfast-proxy/holdfast/systemd"
)

// Exit codes of a command that does not come to run, as env(1) and shells have them.
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

// restartPolicies are the values of --restart.
var restartPolicies = []string{string(keeper.RestartAlways), string(keeper.RestartOnFailure), string(keeper.RestartNever)}

// keepStep is the arguments of this program in the process that becomes the command.
var keepStep = []string{"keep", "--become-command", "--"}

func newKeep() *cobra.Command {
	o := keeper.Options{Step: keepStep}
	var becomeCommand bool
	var restart string
	cmd := &cobra.Command{
		Use:   "keep [flags] -- COMMAND [ARGUMENT]...",
		Short: "Run a service where there is no systemd, and keep its sockets",
		Long: `Runs a command, keeps the sockets that it asks to keep, and starts it again when it
ends, with those sockets: clients wait in their queues meanwhile and are not refused.

It is to the command what systemd is to a service of Type=notify: NOTIFY_SOCKET for
sd_notify(3) with FDSTORE=1, LISTEN_FDS for what is kept, a watchdog. Any program that
works under systemd works here as it is, and one that knows none of it is just run and
restarted. The command must stay in the foreground.

  restart   at once when it has run for 10 s, else after 100 ms, twice that each time, up
            to 1 s. What it leaves in its process group is killed first.
  stop      by TERM, INT or QUIT, which is passed on to the command. A second one is
            passed on, too. After --stop-timeout the command is killed.
  others    HUP, USR1, USR2 and WINCH are passed on.

It can be PID 1 of a container: it waits for orphans, and needs nothing that can be
written to. stdin, stdout and stderr are the command's, too; the terminal is not, so
that Ctrl-C is a stop. Sockets that were passed by LISTEN_FDS are passed on.

The exit code is the command's, 128 + N if signal N ended it, 0 if that was the signal
of the stop, 126 or 127 if it cannot be run or found.

If keep itself is killed the command runs on. With --dir the next keep with the same
directory takes it on instead of starting another. Without --dir it starts another
process, and holdfast serve takes over from the one that runs, with its connections.
Where keep is PID 1 all ends with it.`,
		Example: `  holdfast keep -- holdfast serve --config /etc/holdfast/holdfast.toml
  holdfast keep --dir /run/holdfast-keep --watchdog 30s -- holdfast serve
  ENTRYPOINT ["holdfast", "keep", "--", "holdfast", "serve"]    # in a Dockerfile`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(cmd, errors.New("no command to keep"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if becomeCommand {
				return commandError(keeper.Exec(args))
			}
			o.Command, o.Restart = args, keeper.RestartPolicy(restart)
			if err := o.Check(); err != nil {
				return usage(cmd, err)
			}
			return keep(o)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the command's name is the command's
	f.StringVar(&o.Dir, "dir", "", "`DIRECTORY` by which the next keep finds the command if this one is killed;\nit is made if it is missing, for this user alone")
	f.IntVar(&o.StoreMax, "store-max", 4096, "keep `N` sockets and other descriptors at most")
	f.DurationVar(&o.Watchdog, "watchdog", 0, "restart a command that says no WATCHDOG=1 for a `DURATION`; 0 = it may be silent")
	f.DurationVar(&o.StopTimeout, "stop-timeout", 90*time.Second, "kill a command that takes longer than a `DURATION` to stop and does not\nask for more time")
	f.StringVar(&restart, "restart", restartPolicies[0], "`WHEN` to start the command again: always, on-failure or never")
	f.BoolVar(&becomeCommand, "become-command", false, "")
	must(f.MarkHidden("become-command"))
	must(cmd.MarkFlagDirname("dir"))
	must(cmd.RegisterFlagCompletionFunc("restart", cobra.FixedCompletions(restartPolicies, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// keep runs a command until it is stopped.
func keep(o keeper.Options) error {
	// Outside the journal its lines are among those of what it keeps.
	o.Log = slog.New(systemd.NewLogHandler(systemd.LogOptions{Identifier: "holdfast-keep"})).With("component", "keeper")
	passed := activation.FromSystemd(o.Log)
	for _, offer := range passed.Offers {
		o.Sockets = append(o.Sockets, fdstore.Held(offer))
	}
	code, err := keeper.Run(o)
	if err != nil {
		return commandError(err)
	}
	if code != 0 {
		return &codedError{code: code} // the log has said why
	}
	return nil
}

// commandError gives an error the exit code of a command that could not be run.
func commandError(err error) error {
	var run *exec.Error
	switch {
	case err == nil || !errors.As(err, &run):
		return err
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return &codedError{code: exitNotFound, err: err, hint: "the command is looked for in PATH, unless it has a slash"}
	}
	return &codedError{code: exitCannotRun, err: err}
}
