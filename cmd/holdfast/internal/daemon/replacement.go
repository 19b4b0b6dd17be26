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
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// upgradePatience is how long a replacement may take until it has taken over. Names of
// servers are looked up in that time, and a manager may be slow.
const upgradePatience = time.Minute

// replacement is a process that was started to take over.
type replacement struct {
	process *os.Process
	pid     int
	pipe    *os.File    // by which it says its reason
	reason  chan string // that, when it has ended or closed its end
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
	command.Env = append(command.Env, d.keep.client.Environ()...)
	command.Env = append(command.Env, d.environ...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.ExtraFiles = []*os.File{writer}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: d.keep.client != nil}
	if d.keep.client == nil || d.isKeepersChild() {
		command.SysProcAttr.Cloneflags = unix.CLONE_PARENT
	}
	if err := command.Start(); err != nil {
		_ = reader.Close()
		return nil, fmt.Errorf("start it: %w", err)
	}
	r := &replacement{command.Process, command.Process.Pid, reader, make(chan string, 1)}
	d.log.Info("started a replacement", "program", program, "pid", r.pid)
	d.serving.Go(func() {
		const most = 16 << 10
		said, _ := io.ReadAll(io.LimitReader(reader, most)) // ends with await at the latest
		r.reason <- strings.TrimSpace(string(said))
	})
	return r, nil
}

func (d *daemon) isKeepersChild() bool {
	ctx, cancel := context.WithTimeout(d.until, askPatience)
	defer cancel()
	return d.keep.client.IsParent(ctx)
}

// replacementArgs are the arguments of a process that is to take over.
func replacementArgs(args []string) []string {
	const always = "--takeover=" + string(TakeoverAlways)
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == always }) // of an upgrade before
	return append(args, always)
}

// await returns when the replacement says that it has taken over, or why it never will.
// One that says why ends by itself, when it has served whom it has accepted. One that says
// nothing has ended, and so has one that comes to nothing as another process was first.
func (r *replacement) await(ctx context.Context, u *upgrading, passed <-chan int) error {
	defer r.pipe.Close()
	ctx, cancel := context.WithTimeout(ctx, upgradePatience)
	defer cancel()
	to := 0
	for {
		select {
		case reason := <-r.reason:
			return r.said(reason)
		case to = <-passed:
			if to != r.pid {
				r.end()
				return fmt.Errorf("%s has taken over meanwhile", sock.Peer{PID: to})
			}
		case <-ctx.Done():
			if to == r.pid || u.giveUp(r.pid) == r.pid { // it has not come to say so
				return r.process.Release()
			}
			r.end()
			return fmt.Errorf("the new process has not taken over: %w", ctx.Err())
		}
	}
}

// said acts on what the replacement says.
func (r *replacement) said(reason string) error {
	switch reason {
	case hasTakenOver:
		return r.process.Release()
	case "":
		r.awaitEnd()
		r.end()
		return errors.New("the new process has ended and does not say why: see its log")
	}
	go func() { _, _ = r.process.Wait() }() // ends with it or with this process; nobody else may reap a child of this one
	return errors.New(reason)
}

// lastWords is how long a replacement that has closed the pipe may take to end.
const lastWords = time.Second

// awaitEnd waits for the end of the replacement for a moment.
func (r *replacement) awaitEnd() {
	_ = r.process.WithHandle(func(pidfd uintptr) {
		ended := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		for deadline := time.Now().Add(lastWords); time.Now().Before(deadline); {
			n, err := unix.Poll(ended, int(time.Until(deadline).Milliseconds()))
			if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
				break
			}
		}
	})
}

// end ends the replacement, and waits for it if it is a child of this process.
func (r *replacement) end() {
	_ = r.process.Kill()
	_, _ = r.process.Wait()
}
