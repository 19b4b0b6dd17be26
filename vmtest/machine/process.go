package machine

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a child that cannot outlive this process.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of the end; valid once ended is closed
}

// startProcess starts cmd. Its death signal belongs to the thread that forks, so
// one thread is kept for it.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	go p.watch(started)
	return p, <-started
}

// watch ends with the process.
func (p *process) watch(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	err := p.cmd.Start()
	started <- err
	if err != nil {
		p.err = err
		return
	}
	if p.err = p.cmd.Wait(); p.err == nil {
		p.err = errors.New("it switched itself off")
	}
}

// kill returns when the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails when it has ended, or never started
	<-p.ended
}
