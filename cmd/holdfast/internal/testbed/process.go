package testbed

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Program says what to run.
type Program struct {
	Path string
	Args []string
	Env  []string       // added to the environment of the test
	User string         // the user to run as when the test is root; "" = the same
	Stop syscall.Signal // asks it to end after the test; 0 = SIGTERM
}

// Process is a running program. It leads a process group, so that its workers
// are counted and ended with it.
type Process struct {
	cmd  *exec.Cmd
	stop syscall.Signal
	log  string
	done chan struct{} // closed when it has ended
}

// Start runs a program in the background until the test is over. Its output
// goes to a file, whose end is shown when the test fails.
func Start(t testing.TB, program Program) *Process {
	t.Helper()
	p := &Process{
		cmd:  exec.Command(program.Path, program.Args...),
		stop: program.Stop,
		log:  filepath.Join(Dir(t), "output"),
		done: make(chan struct{}),
	}
	out, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append(os.Environ(), program.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:    true,
		Credential: credential(t, program.User),
		Pdeathsig:  syscall.SIGTERM, // a test that panics or times out leaves nothing behind, workers neither
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", program.Path, err)
	}
	go func() { // ends with the process
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("output of %s:\n%s", filepath.Base(program.Path), tail(p.Log()))
		}
	})
	return p
}

// Run runs a program to its end and returns what it printed. An exit code other
// than 0 fails the test.
func Run(t testing.TB, program Program) string {
	t.Helper()
	cmd := exec.Command(program.Path, program.Args...)
	cmd.Env = append(os.Environ(), program.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: credential(t, program.User),
		Pdeathsig:  syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program.Path, program.Args, err, tail(out))
	}
	return string(out)
}

// Pid is the id of the process and of its group.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Log is everything that it has printed so far.
func (p *Process) Log() []byte {
	out, _ := os.ReadFile(p.log)
	return out
}

// Signal sends one signal to the process, not to its workers.
func (p *Process) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("signal %v: %v", sig, err)
	}
}

// Ended says whether the process is gone.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ExitCode waits for the end and returns the exit code, -1 for a death by
// signal. A process that lives on after the limit fails the test.
func (p *Process) ExitCode(t testing.TB, within time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("process %d still runs after %v", p.Pid(), within)
		return 0
	}
}

// Stop ends the process before the test does: it asks it to, and after 5 s kills
// its whole group. Stopping it again does nothing.
func (p *Process) Stop() {
	if !p.Ended() {
		_ = p.cmd.Process.Signal(cmp.Or(p.stop, syscall.SIGTERM))
		select {
		case <-p.done:
		case <-time.After(5 * time.Second):
		}
		_ = syscall.Kill(-p.Pid(), syscall.SIGKILL)
		<-p.done
	}
}

func credential(t testing.TB, name string) *syscall.Credential {
	t.Helper()
	if name == "" || os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// tail is the end of a long output, from the start of a line.
func tail(out []byte) []byte {
	const limit = 4096
	if len(out) <= limit {
		return out
	}
	out = out[len(out)-limit:]
	return out[bytes.IndexByte(out, '\n')+1:]
}
