package main

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"

	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// Run runs a program to its end. That it fails is a result and no error.
func (agent) Run(c wire.Command, r *wire.Result) error {
	group, err := newGroup()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	stdout, stderr := newOutput(wire.MaxOutput), newOutput(wire.MaxOutput)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(c.Stdin), stdout, stderr
	// It is no member of the agent's process group, which it might signal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, UseCgroupFD: true, CgroupFD: group.fd()}
	cmd.Cancel = group.kill
	cmd.WaitDelay = time.Second // for pipes that a child in the background holds open

	err = cmd.Run()
	if err := group.end(); err != nil {
		return err
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		return err
	}
	r.Stdout, r.Stderr = stdout.bytes(), stderr.bytes()
	r.Code = cmd.ProcessState.ExitCode()
	r.TimedOut = ctx.Err() != nil
	return nil
}
