package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-proxy/holdfast/proxy/config"
	"github.com/holdfast-proxy/holdfast/proxy/control"
)

// change is a thing that a verb has the running instance do, and T what it answers when
// that is done.
type change[T any] struct {
	socket  string // "" = where it is found
	asJSON  bool
	timeout time.Duration
	do      func(*control.Client, context.Context) (T, error)
	print   func(io.Writer, T) error // for people
}

// command is the verb, described so far by its name and texts.
func (c *change[T]) command(verb *cobra.Command) *cobra.Command {
	verb.Args = noArgs
	verb.RunE = func(cmd *cobra.Command, _ []string) error { return c.ask(cmd) }
	controlFlag(verb, &c.socket)
	jsonFlag(verb, &c.asJSON)
	return verb
}

// ask returns when it is done or refused.
func (c *change[T]) ask(cmd *cobra.Command) error {
	socket := c.socket
	if socket == "" {
		socket = config.FindControlSocket(os.Environ())
	}
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), c.timeout, fmt.Errorf("not done within %v", c.timeout))
	defer cancel()
	done, err := c.do(control.NewClient(socket), ctx)
	var refused *control.RefusedError
	switch {
	case c.asJSON && errors.As(err, &refused):
		return printRefusal(cmd.OutOrStdout(), refused)
	case err != nil:
		return err
	case c.asJSON:
		return json.NewEncoder(cmd.OutOrStdout()).Encode(done)
	}
	return c.print(cmd.OutOrStdout(), done)
}

// printRefusal says why a change was refused, for programs.
func printRefusal(w io.Writer, refused *control.RefusedError) error {
	err := json.NewEncoder(w).Encode(struct {
		Error    string            `json:"error"`
		Problems []control.Problem `json:"problems"`
	}{refused.Reason, append([]control.Problem{}, refused.Problems...)})
	return errors.Join(err, &codedError{code: exitFailed})
}
