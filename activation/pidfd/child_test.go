package pidfd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/activation/pidfd"
)

// patience is for a slow and busy machine; nothing waits so long on an idle one.
const patience = 30 * time.Second

// child is another process with the test's own code.
type child struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// command is one of children. It is started through /proc, as another user may not
// enter the directory where the test binary is.
func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), childVariable+"="+name)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// start starts a child, which ends with the test.
func start(t testing.TB, cmd *exec.Cmd) *child {
	t.Helper()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &child{Cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(c.kill)
	return c
}

// kill ends the child at once, and waits until it is gone.
func (c *child) kill() {
	if c.ProcessState == nil {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

// hears reads what the child says next.
func (c *child) hears(t testing.TB, what any) {
	t.Helper()
	require.True(t, c.out.Scan(), "the child says nothing: %v", c.out.Err())
	require.NoError(t, json.Unmarshal(c.out.Bytes(), what), "%s", c.out.Bytes())
}

// tells lets the child go on, which waits for that.
func (c *child) tells(t testing.TB, what string) {
	t.Helper()
	_, err := fmt.Fprintln(c.in, what)
	require.NoError(t, err)
}

// say and waitToBeTold are the child's ends.
func say(what any) error {
	return json.NewEncoder(os.Stdout).Encode(what)
}

var stdin = bufio.NewScanner(os.Stdin)

func waitToBeTold() (what string) {
	if !stdin.Scan() {
		os.Exit(0) // the test is over
	}
	return stdin.Text()
}

func open(t testing.TB, pid int) *pidfd.Process {
	t.Helper()
	p, err := pidfd.Open(pid)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

// take gives the sockets of a process, which are closed when the test ends.
func take(t testing.TB, p *pidfd.Process) []pidfd.Found {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	found, err := p.ListeningSockets(ctx)
	closeLater(t, found)
	require.NoError(t, err)
	return found
}

func closeLater(t testing.TB, found []pidfd.Found) {
	t.Cleanup(func() {
		for _, f := range found {
			assert.NoError(t, f.FD.Close())
		}
	})
}
