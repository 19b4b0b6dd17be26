package keeper

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// process is one that is known by its pidfd, whosever child it is. Its number never
// means another one as long as ended is false.
type process struct {
	pid   int
	pidfd *sock.FD
	group int       // its process group when it was opened
	since time.Time // when it was opened
}

// openProcess opens a process that runs.
func openProcess(pid int) (*process, error) {
	raw, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return newProcess(pid, raw), nil
}

func newProcess(pid, pidfd int) *process {
	p := &process{pid: pid, pidfd: sock.NewFD(pidfd), since: time.Now()}
	p.group, _ = unix.Getpgid(pid) // 0 if it has ended meanwhile
	return p
}

// ended tells whether the process runs no more; nobody need have waited for it.
func (p *process) ended() bool {
	poll := []unix.PollFd{{Fd: int32(p.pidfd.Raw()), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n == 1
}

// signal sends a signal. That the process has ended is no error.
func (p *process) signal(signal unix.Signal) error {
	err := unix.PidfdSendSignal(p.pidfd.Raw(), signal, nil, 0)
	if err != nil && !p.ended() {
		return fmt.Errorf("send %s to process %d: %w", unix.SignalName(signal), p.pid, err)
	}
	return nil
}

// killGroup kills what is left in the group of a process that has just ended. Its
// number is free only then, and the kernel gives numbers out in a circle.
func (p *process) killGroup() {
	if p.group > 1 && p.group != unix.Getpgrp() {
		_ = unix.Kill(-p.group, unix.SIGKILL) // ESRCH: nothing is left
	}
}

func (p *process) close() {
	_ = p.pidfd.Close()
}
