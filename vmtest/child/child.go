// Package child starts processes that cannot outlive the one that starts them, in
// whatever way that ends.
package child

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Process is one of them.
type Process struct {
	PID   int
	Ended chan struct{}
	Err   error // of the end; valid once Ended is closed

	cmd *exec.Cmd
}

// Start starts cmd. Its death signal belongs to the thread that forks, so one thread is
// kept for it.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, Ended: make(chan struct{})}
	started := make(chan error)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	go p.watch(started)
	if err := <-started; err != nil {
		return nil, err
	}
	p.PID = cmd.Process.Pid
	return p, nil
}

// watch ends with the process.
func (p *Process) watch(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.Ended)
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	if p.Err = p.cmd.Wait(); p.Err == nil {
		p.Err = errors.New("it ended by itself")
	}
}

// Kill returns when the process is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails when it has ended
	<-p.Ended
}

// Runs tells whether there is a process of that number, and it is no zombie.
func Runs(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
