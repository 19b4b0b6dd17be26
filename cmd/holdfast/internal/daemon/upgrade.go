package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/proxy/control"
	"github.com/holdfast-proxy/holdfast/proxy/status"
)

// upgradePatience is how long a replacement may take until it has taken over. Names of
// servers are looked up in that time, and a manager may be slow.
const upgradePatience = time.Minute

// Why an upgrade is not begun.
var (
	errUpgrading = errors.New("an upgrade is under way")
	errInit      = errors.New("this process is PID 1, and with it ends everything: run it under holdfast keep")
)

// upgrading is a replacement that this instance has started. The zero value is none.
// Its methods may be called from any goroutine.
type upgrading struct {
	mu     sync.Mutex
	pid    int           // of the replacement, 0 = none
	taken  chan struct{} // closed when somebody has taken over, and the manager knows
	passed bool          // somebody has: there is no way back
	reason string        // why the last one did not
}

// begin makes room for a replacement, for one at a time.
func (u *upgrading) begin() (taken <-chan struct{}, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.taken != nil {
		return nil, errUpgrading
	}
	u.taken = make(chan struct{})
	return u.taken, nil
}

func (u *upgrading) started(pid int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pid = pid
}

// pass notes that somebody has taken over. Whoever was started for that must not be ended
// any more.
func (u *upgrading) pass() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.passed = true
}

func (u *upgrading) isPassed() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.passed
}

// failed ends an upgrade that came to nothing.
func (u *upgrading) failed(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pid, u.taken, u.reason = 0, nil, err.Error()
}

// done notes that somebody has taken over, and that the manager was told.
func (u *upgrading) done() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.taken != nil {
		close(u.taken)
	}
}

// child is the process that is to take over, 0 = none.
func (u *upgrading) child() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.pid
}

func (u *upgrading) underWay() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.taken != nil
}

func (u *upgrading) lastError() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.reason
}

// Upgrade starts the program as it is installed now, and returns when that has taken
// over, or has not: whoever asks may go meanwhile. It may be called from any goroutine.
func (d *daemon) Upgrade(context.Context) (status.Upgrade, error) {
	done, err := d.upgrade()
	if err != nil {
		d.log.Error("upgrade failed, this process goes on", "error", err.Error())
		return done, &control.RefusedError{Reason: "upgrade: " + err.Error(), Problems: Problems(err)}
	}
	return done, nil
}

// upgradeUnasked is for a signal, which nobody waits for.
func (d *daemon) upgradeUnasked() { _, _ = d.Upgrade(d.until) }

func (d *daemon) upgrade() (status.Upgrade, error) {
	taken, err := d.upgrading.begin()
	if err != nil {
		return status.Upgrade{}, err
	}
	r, err := d.startReplacement()
	if err == nil {
		d.upgrading.started(r.pid)
		err = r.await(d.until, d.upgrading.isPassed)
	}
	if err != nil {
		d.upgrading.failed(err)
		return status.Upgrade{}, err
	}
	select {
	case <-taken:
	case <-time.After(farewell): // the manager is busy, and the new process serves
	}
	return status.Upgrade{PID: r.pid, Former: os.Getpid()}, nil
}

// replacement is a process that was started to take over.
type replacement struct {
	process *os.Process
	pid     int
	reason  chan string // what it says, when it has ended or closed the pipe
}

// startReplacement starts the program with this process's arguments. The new process is
// not a child of this one but of its parent, which is there when this one has ended, and
// learns of the end of the new one: the service manager does not supervise others. A
// keeper that has taken this process on is not its parent, and knows it with its children.
func (d *daemon) startReplacement() (*replacement, error) {
	if os.Getpid() == 1 {
		return nil, errInit
	}
	program, err := exec.LookPath(os.Args[0])
	if err != nil {
		return nil, fmt.Errorf("find the program: %w", err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer writer.Close()
	command := exec.Command(program, replacementArgs(os.Args[1:])...) //nolint:gosec // ourselves
	command.Env = append(os.Environ(), reasonVariable+"=3")
	command.Env = append(command.Env, d.notify.Environ()...)
	command.Env = append(command.Env, d.client.Environ()...)
	command.Env = append(command.Env, d.environ...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.ExtraFiles = []*os.File{writer}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: d.client != nil}
	if d.client == nil || d.isKeepersChild() {
		command.SysProcAttr.Cloneflags = unix.CLONE_PARENT
	}
	if err := command.Start(); err != nil {
		_ = reader.Close()
		return nil, fmt.Errorf("start it: %w", err)
	}
	r := &replacement{command.Process, command.Process.Pid, make(chan string, 1)}
	d.log.Info("started a replacement", "program", program, "pid", r.pid)
	d.serving.Go(func() {
		const most = 16 << 10
		said, _ := io.ReadAll(io.LimitReader(reader, most))
		_ = reader.Close()
		r.reason <- strings.TrimSpace(string(said))
	})
	return r, nil
}

func (d *daemon) isKeepersChild() bool {
	ctx, cancel := context.WithTimeout(d.until, askPatience)
	defer cancel()
	return d.client.IsParent(ctx)
}

// replacementArgs are the arguments of a process that is to take over.
func replacementArgs(args []string) []string {
	const always = "--takeover=" + string(TakeoverAlways)
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == always }) // of an upgrade before
	return append(args, always)
}

// await returns when the replacement says that it has taken over, or why it never will.
// It has ended then.
func (r *replacement) await(ctx context.Context, passed func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, upgradePatience)
	defer cancel()
	select {
	case reason := <-r.reason:
		if reason == hasTakenOver {
			return r.process.Release()
		}
		r.end()
		if reason == "" {
			return errors.New("the new process has ended and does not say why: see its log")
		}
		return errors.New(reason)
	case <-ctx.Done():
		if passed() { // it has not come to say so
			return r.process.Release()
		}
		_ = r.process.Kill()
		r.end()
		return fmt.Errorf("the new process has not taken over: %w", ctx.Err())
	}
}

// lastWords is how long a replacement that does not take over may take to end.
const lastWords = time.Second

// end sees to it that the replacement ends, and waits for it if it is a child of this
// process.
func (r *replacement) end() {
	_ = r.process.WithHandle(func(pidfd uintptr) {
		ended := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		for deadline := time.Now().Add(lastWords); time.Now().Before(deadline); {
			n, err := unix.Poll(ended, int(time.Until(deadline).Milliseconds()))
			if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
				break
			}
		}
	})
	_ = r.process.Kill()
	_, _ = r.process.Wait()
}
