// Package machine boots an image and runs commands in it.
//
// There are two drivers. QEMU boots the image's own kernel and disk, so what
// holds there holds on a real host; with KVM where that can run a guest, else
// emulated. Nspawn boots the same system as a container on this host's kernel,
// in a second or two: for speed while a scenario is written.
//
// A machine has no network but its own loopback, and what it writes is gone with
// it. It ends with Close, and by the kernel's hand when the process that started
// it dies in any way. Nothing waits for ever: each command has a deadline, and a
// machine that does not answer is killed.
package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/holdfast-proxy/holdfast/vmtest/child"
	"github.com/holdfast-proxy/holdfast/vmtest/image"
	"github.com/holdfast-proxy/holdfast/vmtest/scratch"
	"github.com/holdfast-proxy/holdfast/vmtest/wire"
)

// Options of Start.
type Options struct {
	Image  *image.Image
	Driver Driver
	// Payload are programs by the name that they get in wire.Dir of the guest. One
	// of them is wire.Program.
	Payload map[string][]byte
	Cache   string    // folder that remembers what was found out about this host
	Log     io.Writer // what goes on, a line each
}

// Driver is a way to boot an image.
type Driver string

// The values of Driver.
const (
	QEMU   Driver = "qemu"
	Nspawn Driver = "nspawn"
)

const (
	// bootPatience is for an emulated machine on a busy host. It takes 6 s on an
	// idle one.
	bootPatience = 3 * time.Minute
	// answerPatience is how long the agent may take to say that the time of a
	// command is up, before the machine counts as hung.
	answerPatience = 30 * time.Second
	// endPatience is for a machine to end after its line has broken: a panic of its
	// kernel breaks the line first, on a busy host a second or more before the end.
	endPatience = 5 * time.Second
)

// Machine is a booted image.
type Machine struct {
	process *child.Process
	agent   *rpc.Client
	dir     runDir
}

// Start boots a machine and waits until its systemd has started everything.
func Start(ctx context.Context, o Options) (*Machine, error) {
	dir, err := scratch.New()
	if err != nil {
		return nil, err
	}
	m := &Machine{dir: runDir{dir}}
	if err := m.boot(ctx, o); err != nil {
		defer m.Close() // takes the console with it
		return nil, fmt.Errorf("boot %s in %s: %w\n%s", o.Image.Release.Suite, o.Driver, err, m.Console())
	}
	return m, nil
}

func (m *Machine) boot(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, bootPatience)
	defer cancel()
	began := time.Now()
	cmd, how, err := o.command(ctx, m.dir)
	if err != nil {
		return err
	}
	console, err := os.Create(m.dir.console())
	if err != nil {
		return err
	}
	defer console.Close()
	cmd.Stdout, cmd.Stderr = console, console
	if m.process, err = child.Start(cmd); err != nil {
		return err
	}
	if err := m.connect(ctx); err != nil {
		return err
	}
	r, err := m.Run(ctx, wire.Command{Args: []string{"systemctl", "is-system-running", "--wait"}, Timeout: bootPatience})
	if err != nil {
		return err
	}
	if state := strings.TrimSpace(string(r.Stdout)); state != "running" {
		failed, err := m.Run(ctx, wire.Command{Args: []string{"systemctl", "--failed"}, Timeout: answerPatience})
		return errors.Join(fmt.Errorf("systemd is %s\n%s", state, failed.Stdout), err)
	}
	fmt.Fprintf(o.Log, "vmtest: machine %s: up after %.1f s, %s\n", o.Image.Release.Suite, time.Since(began).Seconds(), how)
	return nil
}

// command is what runs the machine, and a word on how it does.
func (o Options) command(ctx context.Context, dir runDir) (cmd *exec.Cmd, how string, err error) {
	switch o.Driver {
	case QEMU:
		return qemuCommand(ctx, o, dir)
	case Nspawn:
		return nspawnCommand(o, dir)
	}
	return nil, "", fmt.Errorf("no driver %q: it is %s or %s", o.Driver, QEMU, Nspawn)
}

// installed fails with what to do if a program is not there.
func installed(program string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%w; as root, .ci/setup vm installs it", err)
	}
	return nil
}

// connect reaches the agent. In QEMU the line is there before the agent is.
func (m *Machine) connect(ctx context.Context) error {
	for {
		conn, err := net.Dial("unix", m.dir.agentSocket())
		if err == nil {
			m.agent = rpc.NewClient(conn)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no line to the agent: %w", err)
		case <-m.process.Ended:
			return fmt.Errorf("the machine ended: %w", m.process.Err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Run runs a command in the guest. An error is about the machine; how the
// command ended is in the Result.
func (m *Machine) Run(ctx context.Context, c wire.Command) (wire.Result, error) {
	var r wire.Result
	err := m.call(ctx, "Run", c, &r, c.Timeout+answerPatience)
	return r, err
}

// Put writes a file in the guest and makes the folders above it.
func (m *Machine) Put(ctx context.Context, f wire.File) error {
	return m.call(ctx, "Put", f, &wire.Nothing{}, answerPatience)
}

// Get reads a file of the guest.
func (m *Machine) Get(ctx context.Context, path string) (wire.File, error) {
	var f wire.File
	err := m.call(ctx, "Get", path, &f, answerPatience)
	return f, err
}

func (m *Machine) call(ctx context.Context, method string, question, answer any, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var err error
	done := make(chan struct{})
	go func() { // even the question blocks if it is large and nobody reads it
		defer close(done)
		err = m.agent.Call(wire.Service+"."+method, question, answer)
	}()
	select {
	case <-done:
		if _, fromAgent := errors.AsType[rpc.ServerError](err); err == nil || fromAgent {
			return err
		}
		select {
		case <-m.process.Ended:
			return fmt.Errorf("the machine ended: %w", m.process.Err)
		case <-time.After(endPatience):
			m.process.Kill() // without an agent it is of no use
			return fmt.Errorf("the line to the machine broke, and it was killed: %w", err)
		}
	case <-m.process.Ended:
		<-done // its end was that of the line: nobody writes to answer any more
		return fmt.Errorf("the machine ended: %w", m.process.Err)
	case <-ctx.Done():
		m.process.Kill()
		<-done
		return fmt.Errorf("the machine did not answer and was killed: %w", ctx.Err())
	}
}

// Alive tells whether the machine still runs.
func (m *Machine) Alive() bool {
	select {
	case <-m.process.Ended:
		return false
	default:
		return true
	}
}

// Console is the end of what the machine said on its console.
func (m *Machine) Console() string {
	const most = 8 << 10
	text, err := os.ReadFile(m.dir.console())
	if err != nil {
		return ""
	}
	return string(text[max(0, len(text)-most):])
}

// Kill ends the machine at once, for one that is of no use any more. Its console
// can still be read.
func (m *Machine) Kill() { m.process.Kill() }

// Close ends the machine at once, and removes all that is left of it.
func (m *Machine) Close() {
	if m.process != nil {
		m.process.Kill()
	}
	if m.agent != nil {
		_ = m.agent.Close()
	}
	_ = m.dir.Remove() // the next machine tries it, too
}
