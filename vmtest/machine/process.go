package machine

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// installed fails with what to do if a program is not there.
func installed(program string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%w; as root, .ci/setup vm installs it", err)
	}
	return nil
}

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
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// watch ends with the process.
func (p *process) watch(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	if p.err = p.cmd.Wait(); p.err == nil {
		p.err = errors.New("it switched itself off")
	}
}

// kill returns when the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails when it has ended
	<-p.ended
}
