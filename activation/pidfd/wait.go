package pidfd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Wait waits until the process has ended, with all its threads. It need not be a
// child. That a child is to be reaped is not Wait's business.
func (p *Process) Wait(ctx context.Context) error {
	if err := p.wait(ctx); err != nil {
		return fmt.Errorf("wait for the end of %s: %w", p, err)
	}
	return nil
}

// wait parks the goroutine in the runtime's poller, on a descriptor of its own: a
// thread that waits in poll(2) could not be called off.
func (p *Process) wait(ctx context.Context) error {
	raw, err := unix.FcntlInt(uintptr(p.fd.Raw()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = unix.SetNonblock(raw, true) // what the poller asks for; of a pidfd only waitid(2) minds
	file := os.NewFile(uintptr(raw), "pidfd")
	defer file.Close()
	if err != nil {
		return err
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) }) // long ago
	defer stop()
	err = conn.Read(func(fd uintptr) bool { return polled(int(fd), unix.POLLIN) })
	switch {
	case err == nil || p.exited(): // also if this process was stopped until the time was over
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// exited tells whether the process has ended: its pidfd is readable then.
func (p *Process) exited() bool {
	return polled(p.fd.Raw(), unix.POLLIN)
}

// polled tells whether one of the events is there now.
func polled(fd int, events int16) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: events}}
	_, err := unix.Poll(poll, 0)
	for errors.Is(err, unix.EINTR) {
		_, err = unix.Poll(poll, 0)
	}
	return err == nil && poll[0].Revents&events != 0
}
