package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-proxy/holdfast/activation/handover"
	"github.com/holdfast-proxy/holdfast/cmd/holdfast/internal/daemon"
	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/control"
)

// Exit codes, after the Linux Standard Base, "Init Script Actions", as daemon(7)
// asks.
const (
	exitDone       = 0
	exitFailed     = 1 // failed, or refused by the running instance
	exitUsage      = 2
	exitPermission = 4
	exitConfig     = 6 // bad or missing
	exitNotRunning = 7

	exitStatusNotRunning = 3 // of status alone
)

// codedError is an error whose exit code depends on the verb.
type codedError struct {
	code int
	err  error  // nil = all has been said on standard output
	hint string // "" = none
}

func (e *codedError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *codedError) Unwrap() error { return e.err }

// exitCode is the one place that maps errors to exit codes.
func exitCode(err error) int {
	var coded *codedError
	var bad *config.Error
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, fs.ErrPermission): // before bad: a file that may not be read is not a bad one
		return exitPermission
	case errors.As(err, &bad):
		return exitConfig
	case errors.Is(err, control.ErrNotRunning), errors.Is(err, handover.ErrNobody):
		return exitNotRunning
	}
	return exitFailed
}

// printError says what went wrong and, where it is known, what to do.
func printError(w io.Writer, err error) {
	var coded *codedError
	var refused *control.RefusedError
	problems := daemon.Problems(err)
	switch {
	case err == nil:
	case errors.As(err, &coded):
		problems = []control.Problem{{Error: coded.Error(), Hint: coded.hint}}
	case errors.As(err, &refused) && len(refused.Problems) > 0:
		problems = refused.Problems
	case len(problems) == 1 && problems[0].Hint == "":
		problems[0].Hint = hintFor(err)
	}
	for _, p := range problems {
		say(w, "error", p.Error)
		say(w, "hint", p.Hint)
	}
}

// say prints each line of text behind kind, and nothing for no text.
func say(w io.Writer, kind, text string) {
	if text == "" {
		return
	}
	for line := range strings.Lines(text) {
		_, _ = fmt.Fprintf(w, "%s: %s\n", kind, printable(strings.TrimSuffix(line, "\n")))
	}
}

func hintFor(err error) string {
	var unread *config.Error
	switch {
	case errors.Is(err, control.ErrNotRunning):
		return notRunningHint
	case errors.Is(err, context.DeadlineExceeded):
		return "the process is stopped or hangs: see STAT in ps -p PID; kill -CONT it, or have holdfast serve take over"
	case errors.Is(err, fs.ErrPermission) && errors.As(err, &unread):
		return "run it as root, or let this user read the file"
	case errors.Is(err, fs.ErrPermission):
		return "run it as root or as the user of the instance, or name another control socket with --control-socket"
	}
	return ""
}

const notRunningHint = "start it with holdfast serve or systemctl start holdfast, or name its socket with --control-socket"

// usage makes err one of wrong usage of cmd.
func usage(cmd *cobra.Command, err error) error {
	return &codedError{code: exitUsage, err: err, hint: cmd.CommandPath() + " --help says how"}
}
