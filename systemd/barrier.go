package systemd

import (
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Barrier returns when the manager has dealt with every message that was sent
// before, as sd_notify_barrier(3): descriptors are in the store then, or have been
// refused. It says nothing about which; see AskUnit.
//
// The error wraps that of ctx when the manager has not answered by then, and is
// ErrNoManager for a nil Notifier.
func (n *Notifier) Barrier(ctx context.Context) error {
	if n == nil {
		return fmt.Errorf("barrier: %w", ErrNoManager)
	}
	// The manager gets the only write end and closes it: that is the answer.
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return fmt.Errorf("make a pipe for the service manager to close: %w", err)
	}
	answer := os.NewFile(uintptr(pipe[0]), "barrier")
	defer answer.Close()
	err := n.send(ctx, pipe[1:], "BARRIER=1") // systemd wants it alone
	_ = unix.Close(pipe[1])
	if err != nil {
		return err
	}

	defer context.AfterFunc(ctx, func() { _ = answer.SetReadDeadline(longAgo) })()
	_, err = io.Copy(io.Discard, answer)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("the service manager at %s did not deal with the messages in time: %w", n.socket, ctx.Err())
	}
	return err
}
